"""The compiled parts of the search; each is tested against a plain Python twin."""
