"""Where rows of features come from: stores, SMILES files, and data given in memory."""
