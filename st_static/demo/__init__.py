"""A web page on which a static model runs in the browser, with its table in 8 bits."""
