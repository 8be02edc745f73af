"""Exports: an allocation in the formats of other mappers and simulators (PEERS.md), one tool per file."""
