"""The reference pages of the documentation, generated from the product.

Owns no fact: every row comes from the API's description, the settings, the commands, the errors or
the metrics. `make docs` writes the pages to docs/reference/, which git ignores.
"""
