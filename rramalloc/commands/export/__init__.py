"""Export: an allocation in the formats of other mappers and simulators, one tool per file."""
