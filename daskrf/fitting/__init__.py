"""The parts of jobs that fit: sums, learned maps, exact processes, evaluations."""
