"""What a result shows, said once, and how a terminal, a page, CSV, Markdown and LaTeX show it."""
