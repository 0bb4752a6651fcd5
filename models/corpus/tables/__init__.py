"""The words of the corpus, one subject a file: tables only. Text written for this project, CC0-1.0."""
