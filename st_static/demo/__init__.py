"""A page on which a static model runs in the browser.

In comes a model; out comes a folder that any web server serves as it is: the page, in `page/` here,
and the model with its table in 8 bits.
"""
