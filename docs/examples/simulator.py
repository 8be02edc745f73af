"""A simulator for `rramalloc tune`: from the path of an allocation to a figure, of which less is better."""

import json
import sys

time_ns = 0
with open(sys.argv[1], encoding="utf-8") as file:
    allocation = json.load(file)
for layer in allocation["layers"]:
    batch_ns = max(20, 2 * layer["copies"])
    time_ns += batch_ns * layer["batches"]
print(time_ns)
