"""The console: server-rendered pages for the person who runs Sluice.

One file per page; what a page shows is made by pure functions from data to frozen view values.
It reads through the use cases the admin API reads through, and changes nothing.
"""
