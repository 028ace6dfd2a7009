"""Choosing the kernel, feature map, length scale or metric by the labels."""
