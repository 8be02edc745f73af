"""Lower bounds of the makespan: who proves them, and by which relaxations."""
