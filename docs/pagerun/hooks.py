"""What MkDocs calls: pages are run before they are rendered, two at a time, and their pictures join the site."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from pagerun import PageFailedError, Ran, pages_to_run, ran_page, render

_ran: dict[str, Ran] = {}


def on_files(files: Files, config: Any) -> Files:
    """Run every page that has blocks to run, and add the files that they made."""
    names = [name for name in pages_to_run() if files.get_file_from_path(name) is not None]
    with ThreadPoolExecutor(2) as pool:
        try:
            _ran.update(zip(names, pool.map(ran_page, names), strict=True))
        except PageFailedError as error:
            raise PluginError(str(error)) from error
    for name in names:
        for made, content in _ran[name].files.items():
            path = (Path(name).parent / made).as_posix()
            if files.get_file_from_path(path) is not None:
                raise PluginError(
                    f"docs/{name} makes {made}, which another page makes too, or docs has: name it otherwise"
                )
            files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show what the blocks of a page put out."""
    name = page.file.src_uri
    return render(markdown, _ran[name].outputs) if name in _ran else markdown
