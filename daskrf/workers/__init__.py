"""Where tasks run: this process, clusters and batch systems; their security, progress and failures."""
