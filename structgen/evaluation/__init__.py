"""JSONSchemaBench's axes for any engine and model: coverage, efficiency, quality."""
