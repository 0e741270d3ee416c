"""`guepard bench`: numbers that can be trusted, of any model API."""
