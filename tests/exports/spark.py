#!/usr/bin/env python3
"""The queries of docs/queries.md in Spark, in little memory, against DuckDB's answers. Not part of the suite: it needs Java and
a Python environment with pyspark and duckdb.

    VENV/bin/python tests/exports/spark.py CALLS [--memory 512m]     CALLS: what `ncclwatch export --to parquet` wrote
"""

import argparse
import math
import os
import sys
import time

import duckdb
from pyspark.sql import SparkSession

from cases_tables import queries


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return one == other or math.isclose(float(one), float(other), rel_tol=1e-9)
    return one == other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls")
    parser.add_argument("--memory", default="512m", help="of Spark's process")
    options = parser.parse_args()
    files = [os.path.join(folder, name) for folder, _, names in os.walk(options.calls) for name in names if name.endswith(".parquet")]
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", options.memory) \
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR").getOrCreate()
    spark.read.parquet(options.calls).createOrReplaceTempView("calls")
    duck = duckdb.connect()
    duck.execute(f"CREATE VIEW calls AS SELECT * FROM read_parquet('{options.calls}/**/*.parquet', hive_partitioning = true)")
    print(f"{len(files)} files, {sum(map(os.path.getsize, files)) / 1e6:.0f} MB, {duck.execute('SELECT count(*) FROM calls').fetchone()[0]} calls; "
          f"Spark {spark.version} with {options.memory}")
    wrong = 0
    for name, query in queries().items():
        began = time.monotonic()
        found = [tuple(row) for row in spark.sql(query).collect()]
        took = time.monotonic() - began
        wanted = duck.execute(query).fetchall()
        equal = len(found) == len(wanted) and all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(found, wanted))
        wrong += not equal
        print(f"{name}: {len(found)} rows in {took:.1f} s, {'as DuckDB' if equal else f'DuckDB differs: {wanted[:3]} for {found[:3]}'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
