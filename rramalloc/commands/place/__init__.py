"""Place: every array of every chip, and the traffic between them."""
