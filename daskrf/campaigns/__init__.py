"""Campaigns: rounds of suggesting, scoring and learning, described by one file."""
