"""The parts of jobs that search a library or a space for the best."""
