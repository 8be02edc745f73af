"""Public names of the package, written by docs/generate.py."""

import os
from typing import TypeAlias

from rramalloc import plugin as plugin
from rramalloc.allocation.allocation import Allocation as Allocation
from rramalloc.allocation.allocation import Allocation as _Allocation
from rramalloc.allocation.allocation import BareAllocation as _BareAllocation
from rramalloc.allocation.inspection import Inspection as Inspection
from rramalloc.allocation.inspection import Inspection as _Inspection
from rramalloc.allocation.simulation import Simulation as Simulation
from rramalloc.allocation.simulation import Simulation as _Simulation
from rramalloc.api import convert as convert
from rramalloc.api import inspect as inspect
from rramalloc.api import optimize as optimize
from rramalloc.api import simulate as simulate
from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule as _ChipletSchedule
from rramalloc.commands.chiplet.chiplet_optimize import chiplet_optimize as chiplet_optimize
from rramalloc.commands.chiplet.cost import ChipletComparison as _ChipletComparison
from rramalloc.commands.chiplet.cost import ChipletCost as _ChipletCost
from rramalloc.commands.chiplet.cost import chiplet_compare as chiplet_compare
from rramalloc.commands.chiplet.cost import chiplet_cost as chiplet_cost
from rramalloc.commands.chiplet.description import Description as _Description
from rramalloc.commands.compare.compare import compare as compare
from rramalloc.commands.compare.comparison import Comparison as Comparison
from rramalloc.commands.compare.comparison import Comparison as _Comparison
from rramalloc.commands.evaluate.evaluate import evaluate as evaluate
from rramalloc.commands.evaluate.evaluation import Evaluation as Evaluation
from rramalloc.commands.evaluate.evaluation import EvaluationDocument as _EvaluationDocument
from rramalloc.commands.evaluate.evaluation import LoadMatrix as _LoadMatrix
from rramalloc.commands.evaluate.strategy import Strategy as _Strategy
from rramalloc.commands.explain.explain import explain as explain
from rramalloc.commands.explain.explanation import Explanation as Explanation
from rramalloc.commands.explain.explanation import Explanation as _Explanation
from rramalloc.commands.export.bundle import Export as _Export
from rramalloc.commands.export.bundle import ExportCheck as _ExportCheck
from rramalloc.commands.export.export import export as export
from rramalloc.commands.export.export import export_check as export_check
from rramalloc.commands.export.targets.json import ExportDocument as _ExportDocument
from rramalloc.commands.fold.filter_folding import FilterFold as _FilterFold
from rramalloc.commands.fold.filter_folding import NetworkFold as _NetworkFold
from rramalloc.commands.fold.filter_folding import fold as fold
from rramalloc.commands.fold.filter_folding import fold_filter as fold_filter
from rramalloc.commands.latency.device import open_device as open_device
from rramalloc.commands.latency.estimate import LatencyEstimate as _LatencyEstimate
from rramalloc.commands.latency.estimate import estimate_latency as estimate_latency
from rramalloc.commands.latency.fit import fit_latency as fit_latency
from rramalloc.commands.latency.measure import measure_latency as measure_latency
from rramalloc.commands.pareto.pareto import pareto as pareto
from rramalloc.commands.pareto.pareto_front import ParetoFront as ParetoFront
from rramalloc.commands.pareto.pareto_front import ParetoFront as _ParetoFront
from rramalloc.commands.place.place import place as place
from rramalloc.commands.place.placement import Placement as Placement
from rramalloc.commands.place.placement import Placement as _Placement
from rramalloc.commands.reload.plan import ReloadPlan as ReloadPlan
from rramalloc.commands.reload.plan import ReloadPlan as _ReloadPlan
from rramalloc.commands.reload.reload import optimize_reload as optimize_reload
from rramalloc.commands.report.report import report as report
from rramalloc.commands.size.question import SizeQuestion as _SizeQuestion
from rramalloc.commands.size.size import size as size
from rramalloc.commands.size.sizing import Sizing as Sizing
from rramalloc.commands.size.sizing import Sizing as _Sizing
from rramalloc.commands.sweep.rows import SweepDocument as _SweepDocument
from rramalloc.commands.sweep.rows import SweepStatus as _SweepStatus
from rramalloc.commands.sweep.spec import Spec as _Spec
from rramalloc.commands.sweep.sweep import sweep as sweep
from rramalloc.commands.sweep.sweep import sweep_status as sweep_status
from rramalloc.commands.tune.tune import tune as tune
from rramalloc.commands.tune.tuning import Tuning as Tuning
from rramalloc.commands.tune.tuning import Tuning as _Tuning
from rramalloc.commands.verify.verification import Verification as _Verification
from rramalloc.commands.verify.verify import EarlyReadError as EarlyReadError
from rramalloc.commands.verify.verify import verify as verify
from rramalloc.commands.warm_up.warm_up import WarmUp as _WarmUp
from rramalloc.commands.warm_up.warm_up import warm_up as warm_up
from rramalloc.errors import BudgetError as BudgetError
from rramalloc.errors import CapacityError as CapacityError
from rramalloc.errors import DeviceError as DeviceError
from rramalloc.errors import FileError as FileError
from rramalloc.errors import InfeasibleError as InfeasibleError
from rramalloc.errors import LimitError as LimitError
from rramalloc.errors import MisplacedError as MisplacedError
from rramalloc.errors import MissingLatencyError as MissingLatencyError
from rramalloc.errors import NetworkError as NetworkError
from rramalloc.errors import PluginError as PluginError
from rramalloc.errors import RramallocError as RramallocError
from rramalloc.errors import SimulatorError as SimulatorError
from rramalloc.errors import SolverError as SolverError
from rramalloc.errors import SpecError as SpecError
from rramalloc.errors import TargetError as TargetError
from rramalloc.errors import UnknownNameError as UnknownNameError
from rramalloc.errors import UnsupportedError as UnsupportedError
from rramalloc.errors import WorkerError as WorkerError
from rramalloc.hardware.hardware import Hardware as Hardware
from rramalloc.hardware.hardware import Hardware as _Hardware
from rramalloc.hardware.loader import load_hardware as load_hardware
from rramalloc.importers import load as load
from rramalloc.importers.torch import from_torch as from_torch
from rramalloc.mapping.fold import fold_index as fold_index
from rramalloc.mapping.fold import fold_input as fold_input
from rramalloc.mapping.fold import fold_weights as fold_weights
from rramalloc.network.network import Network as Network
from rramalloc.network.network import Network as _Network
from rramalloc.search.problem import Problem as Problem
from rramalloc.timing.latency_table import LatencyTable as _LatencyTable
from rramalloc.timing.latency_table import load_latency_table as load_latency_table
from rramalloc.timing.stage_graph import StageGraph as StageGraph
from rramalloc.version import __version__ as __version__

__all__ = [
    "Allocation",
    "BudgetError",
    "CapacityError",
    "Comparison",
    "DeviceError",
    "EarlyReadError",
    "Evaluation",
    "Explanation",
    "FileError",
    "Hardware",
    "InfeasibleError",
    "Inspection",
    "LimitError",
    "MisplacedError",
    "MissingLatencyError",
    "Network",
    "NetworkError",
    "ParetoFront",
    "Placement",
    "PluginError",
    "Problem",
    "ReloadPlan",
    "RramallocError",
    "Simulation",
    "SimulatorError",
    "Sizing",
    "SolverError",
    "SpecError",
    "StageGraph",
    "TargetError",
    "Tuning",
    "UnknownNameError",
    "UnsupportedError",
    "WorkerError",
    "__version__",
    "chiplet_compare",
    "chiplet_cost",
    "chiplet_optimize",
    "compare",
    "convert",
    "estimate_latency",
    "evaluate",
    "explain",
    "export",
    "export_check",
    "fit_latency",
    "fold",
    "fold_filter",
    "fold_index",
    "fold_input",
    "fold_weights",
    "from_torch",
    "inspect",
    "load",
    "load_hardware",
    "load_latency_table",
    "measure_latency",
    "open_device",
    "optimize",
    "optimize_reload",
    "pareto",
    "place",
    "read",
    "report",
    "simulate",
    "size",
    "sweep",
    "sweep_status",
    "tune",
    "verify",
    "warm_up",
]

_Readable: TypeAlias = (
    _Allocation
    | _BareAllocation
    | _ChipletComparison
    | _ChipletCost
    | _ChipletSchedule
    | _Comparison
    | _Description
    | _EvaluationDocument
    | _Explanation
    | _Export
    | _ExportCheck
    | _ExportDocument
    | _FilterFold
    | _Hardware
    | _Inspection
    | _LatencyEstimate
    | _LatencyTable
    | _LoadMatrix
    | _Network
    | _NetworkFold
    | _ParetoFront
    | _Placement
    | _ReloadPlan
    | _Simulation
    | _SizeQuestion
    | _Sizing
    | _Spec
    | _Strategy
    | _SweepDocument
    | _SweepStatus
    | _Tuning
    | _Verification
    | _WarmUp
)

def read(path: str | os.PathLike[str]) -> _Readable: ...
