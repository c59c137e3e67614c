"""Adversarial patch scene embedding: an attacked anchor view becomes Gaussians of the scene."""
