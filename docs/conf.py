"""The documentation site: `make docs` builds it from this folder, without a network.

Sphinx reads the Markdown pages as they stand in the repository. `docs/site/reference.py` writes the
pages that come from the code: the interface, the commands, the manifests and the errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

import phalanx

project = "Phalanx"
author = "The Phalanx authors"
copyright = "The Phalanx authors. Apache-2.0"  # Sphinx asks for this name
release = phalanx.__version__
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "reference"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["site", "package", "man", "_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block"]
smartquotes = False  # `--gang` is an option, not a dash
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
toc_object_entries = False
add_module_names = False
maximum_signature_line_length = 88
nitpicky = False

html_theme = "furo"
html_title = f"Phalanx {release}"
html_static_path = ["site/static"]
html_css_files = ["phalanx.css"]
html_js_files = ["scrolled.js"]
templates_path = ["site/templates"]
html_copy_source = False
html_show_search_summary = False  # excerpts need a web server, and the search would wait for them
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
