"""Studies: many allocations side by side - comparisons, Pareto fronts, sweeps."""
