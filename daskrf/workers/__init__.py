"""Where tasks run: this program, clusters and batch systems; their security, progress and failures."""
