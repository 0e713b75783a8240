"""A web page on which a static model runs in the browser.

In comes a model; out comes a folder for any web server: the page, which is in `page/` here, and the
model with its table in 8 bits.
"""
