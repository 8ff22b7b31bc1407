"""An installation of Spark whose workers write where a test says.

The workers of a `local-cluster` keep the files of their executors, copies of all jars among them, in `SPARK_HOME/work`:
tens of megabytes in the environment for each driver.
"""

from pathlib import Path


def spark_home(folder: Path) -> Path:
    """An installation in `folder` made of links to the one of this environment, apart from its folder `work`."""
    import pyspark

    home = folder / "spark-home"
    home.mkdir(exist_ok=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        link = home / each.name
        if each.is_dir() and each.name != "work" and not link.exists():
            link.symlink_to(each)
    return home
