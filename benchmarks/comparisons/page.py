from pathlib import Path
PAGE = Path("/tmp/x.md")
def write_page(c, p): pass
