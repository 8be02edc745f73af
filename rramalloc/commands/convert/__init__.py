"""Convert: any readable network as network JSON."""
