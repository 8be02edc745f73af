"""Report: results as one page of HTML."""
