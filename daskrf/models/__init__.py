"""A model and what belongs to it besides its process: targets, directions, labelled molecules, views."""
