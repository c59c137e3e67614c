"""The three embedded demo victims: their pictures, their training and their weights.

Small models of real architectures, trained from scratch on pictures that this package makes.
They show how the tool works without any download; they are not evidence about real products.
"""
