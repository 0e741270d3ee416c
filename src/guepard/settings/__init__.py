"""Options: one declaration each, from which flag, environment variable, help, schema and reference page are derived."""
