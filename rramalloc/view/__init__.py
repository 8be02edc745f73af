"""Views: the content that a result shows, and its form on a terminal, a page, in CSV, Markdown and LaTeX."""
