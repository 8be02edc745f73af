"""Costs of elementary operations in seconds of a reference core, by which all searches charge their work.

Work is counted, never measured, so that the same limit ends a search at the same point on every machine. A
cost is about what the operation takes on one core; errors of a half move the end of a search, no answer's
proof. Compiled code keeps the costs that it uses in its cache on disk: touch its file when they change.
"""

_NS = 1e-9  # seconds

# Timing of allocations
BATCH_NS = 4.0  # one batch of a stage, in compiled code, which counts in ns
BATCH = BATCH_NS * _NS
CHANGE_NS = 500.0  # drawing one change of copies in compiled annealing, beside its batches
CHANGE_OF_STAGE = 50.0 * _NS  # the same per stage before a run has measured it
NEIGHBOUR_STAGE = 500.0 * _NS  # a stage of a neighbour that keeps all blocks, in a descent
NEIGHBOUR_BLOCK = 4000.0 * _NS  # a stage of one with another block, whose tables are looked up anew
ALLOCATION = 1e4 * _NS  # a stage of one of all allocations of a small problem, made, timed and measured
BEAM_MODE_NS = 150.0  # a mode tried by a beam
FIRST_BEAM_MODE = 3e4 * _NS  # a mode of the first beam: a hundred states of each stage, 300 ns each

# Boxes of copies
BOX_ENTRY = 20.0 * _NS  # a table entry of a node of branch and bound
BOX_PAIR = 7.0 * _NS  # a pair of intervals of an edge in a node
BOX_STAGE_BEYOND = 2000.0 * _NS  # a stage of a node beyond those whose tables stay in the cache

# The program over places
PLACE_COLUMN = 3e4 * _NS  # a column of the first program, in Python, with its rows
PLACE_ROW = 2e4 * _NS  # a row of the program over places, in Python, in a round
PLACE_PIVOT = 3e4 * _NS  # a pivot
PLACE_PIVOT_ROW = 25.0 * _NS  # a row of it in a pivot, beyond that
PLACE_LEG = 2.0 * _NS  # a candidate priced on a leg between two places
FLOW_LOOK = 5.0 * _NS  # a candidate at a place, priced by a flow
FLOW_PLACE = 200.0 * _NS  # a place that a flow passes
PLACE_PAIR = 30.0 * _NS  # a pair of candidates of two stages, for a pair row
PLACE_PIXEL = 10.0 * _NS  # a pixel and a candidate in use, in a search for longest paths

# Labels of modes
WAIT = 3.0 * _NS  # an entry of the tables of waits, filled
PRICED_WAIT = 30.0 * _NS  # such an entry, priced
MODE = 1e3 * _NS  # a mode that is cut into labels
MODE_OF_PAIR = 45.0 * _NS  # the same for each pair of its stage
LABEL = 1.5e4 * _NS  # a label
LABELLED_STAGE = 3.5e4 * _NS  # a stage of a round, whatever its labels
MODE_NODE = 3e4 * _NS  # a stage of a node of branch and bound over modes, beside its rounds

# Decision diagrams
DIAGRAM_LAYER = 3e5 * _NS  # a layer, whatever it holds
DIAGRAM_CANDIDATE = 80.0 * _NS  # a candidate for a state
DIAGRAM_POINT = 1.6 * _NS  # a point of a candidate
DIAGRAM_CENTRE = 3.2 * _NS  # a centre that a state is compared with
DIAGRAM_FINISH = 1.6 * _NS  # a finish that is kept

# Intervals and sums
INTERVAL_STAGE = 20.0 * _NS  # a stage in one look at an interval
COMBINATION = 100.0 * _NS  # a combination of a knapsack, with those it is compared with
OPTION = 20.0 * _NS  # an option of a stage at one price

# Other methods
SOLVER_ENTRY = 50.0 * _NS  # an entry of the matrix in an iteration of HiGHS
SOLVER_ROW = 20.0 * _NS  # a row of the root relaxation in one: of thousands of rows most stay as they are
STEP_PIECE = 1e6 * _NS  # setting up one range of step times
RECURRENCE_EDGE = 2e4 * _NS  # an edge in one round of the tight recurrence, in Python
INDIVIDUAL = 2e4 * _NS  # making and sorting an individual of the genetic search
ANNEALED_STAGE = 20.0 * _NS  # a stage of one move of PIMSYN's annealing
QUEUE_TURN = 50.0 * _NS  # a turn of the priority queue, compiled
GREEDY_COPY = 2000.0 * _NS  # an examined copy of a greedy rule, in Python
HALVED_STAGE = 20.0 * _NS  # a stage in one halving of a scale, in NumPy
UNIFORM_STAGE = 10.0 * _NS  # the same with whole numbers of copies
EXACT_STAGE = 200.0 * _NS  # the same in exact integers
WINDOW = 5000.0 * _NS  # a window or a change of copies of a mapping of windows
STRIDE_NODE = 2000.0 * _NS  # a node on the way back along strides
ROWS_STAGE = 1000.0 * _NS  # a stage whose input rows are looked up

# Places of arrays in tiles
PLACED_UNIT = 3e6 * _NS  # a unit of moves of pieces
PLACED_ROUTE = 1.5e5 * _NS  # a route between two stages, in Python, each time that a layout is timed
