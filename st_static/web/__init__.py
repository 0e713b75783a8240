"""Models outside of Python: a page on which one runs in the browser, and ONNX files."""
