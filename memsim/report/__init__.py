"""What a person or another program reads of a replay: table, page, JSON, files, comparison."""
