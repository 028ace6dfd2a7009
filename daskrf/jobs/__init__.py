"""What every command shares: submission, shares, the tree of sums, needs of memory and disk, clusters."""
