"""Sphinx: make docs."""

import paddle_ops

project = "paddle_ops"
version = release = paddle_ops.__version__
copyright = "the authors of paddle_ops"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# README.md and others link to the sources, which are not among the pages
suppress_warnings = ["myst.xref_missing"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
# `paddle_ops.deform_conv2d` in a docstring is a link, `paddle.nn.Layer` is code
default_role = "py:obj"
html_theme = "furo"
html_static_path = ["style"]
html_css_files = ["tables.css"]
html_title = f"paddle_ops {release}"
