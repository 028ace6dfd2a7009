"""A model with what is known beside its process: targets, directions, labelled molecules, views of it."""
