"""The levers, one module each. `registry` lists them."""
