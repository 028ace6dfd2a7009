"""Choosing by the labels: kernel, feature map, length scale, metric."""
