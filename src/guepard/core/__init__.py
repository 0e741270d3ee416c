"""Words that every other room uses: values, states, errors. No I/O, no asyncio, no logging."""
