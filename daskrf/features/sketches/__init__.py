"""What feature maps are made of: hashes, random projections, sketches, allocations, and choices of rows."""
