"""What is drawn, and what is said about it: the one list of figures."""

import dataclasses
import re

# The line type of each system (figures/style.gp); all names of Concury are the first one's.
TYPES = {"concury": 1, "dcode": 1, "paper": 2, "maglev": 3, "silkroad": 4, "conntrack": 5, "jet": 6,
         "ketama": 2, "two_level": 4, "tournament": 5, "ticket": 6, "pow2_weights2": 7, "pow2_weights3": 8,
         "reroll": 9, "old_new_set": 10, "md5": 2, "sha256": 3,
         "l2": 1, "ipip": 2, "4in6": 3, "gue": 4, "nat": 6, "l2_v6": 5, "6in4": 9, "too_big": 7, "fragments": 8,
         "pause_p50": 1, "pause_p99": 2, "plan": 3, "persist": 4, "p50": 1, "p99": 2}
NAMES = {"pause_p50": "median", "pause_p99": "99th percentile", "p50": "median", "p99": "99th percentile"}
OURS = ("concury", "dcode")
MORE, LESS = 1, -1  # which way is better


@dataclasses.dataclass
class Panel:
    """One bench; `match` picks its cases, and its group is x or the name below."""
    title: str
    bench: str
    xlabel: str
    ylabel: str
    kind: str = "curves"  # lines, points, bars; cdf: cases are percentiles of the values
    match: str = r"(\d+[KM]?)"
    log: str = "xy"
    scale: float = 1
    better: int = 0
    yrange: str = ""
    hline: float | None = None
    layouts: tuple = ()  # these alone

    def cases(self, cases):
        """[(case, what it is called in the figure)]"""
        found = ((c, re.fullmatch(self.match, c)) for c in cases)
        return [(c, m.group(1)) for c, m in found if m]


@dataclasses.dataclass
class Figure:
    name: str
    title: str
    text: str  # two sentences: what is drawn, and how it was measured or what to make of it
    panels: list
    columns: int = 2
    panel_w: int = 430


FLOWS, DIPS = "known flows", "DIPs"
MIB = 1 / 2**20


def _choice(bench, ylabel, better, log="x", **more):
    return [Panel(f"{kind} weights", bench, DIPS, ylabel, match=rf"(\d+)_{kind}", better=better, log=log, **more)
            for kind in ("equal", "mixed")]


def _moves():
    return [Panel(title, f"choice_moves_{bench}", DIPS, "moved / least possible", match=r"(\d+)_mixed", better=LESS)
            for title, bench in (("add", "add"), ("remove", "remove"), ("fail and return", "fail_return"),
                                 ("weight x2", "double"))]


def _workloads(bench, xlabel, ylabel, match, **more):
    return [Panel(title, bench, xlabel, ylabel, match=match.replace("NAME", name), log="", **more)
            for title, name in (("web search", "websearch"), ("data mining", "datamining"), ("cache", "cache"))]


HOUR = r"(.*)"
FIGURES = [
    Figure("lookup", "Lookups",
           "Lookups a second over the number of known flows, by one thread and by two together, 128 VIPs, "
           "bursts of 32. "
           "The stream is of random known flows, the systems take turns, and each figure is the median of "
           "several turns of CPU time.",
           [Panel("1 thread", "consistency_lookup", FLOWS, "million lookups a second", better=MORE),
            Panel("2 threads", "consistency_lookup_2t", FLOWS, "million lookups a second", better=MORE)]),
    Figure("memory", "Memory that lookups read",
           "Bytes that the packets' threads read, over the number of known flows, after one DIP more has "
           "come to each VIP. "
           "What control keeps aside (keys, idle times) is not part of it, in no system.",
           [Panel("", "consistency_bytes", FLOWS, "MiB", scale=MIB, better=LESS)]),
    Figure("insert", "Taking in all flows",
           "CPU time to take in all flows, one at a time, as they open. "
           "In Concury and in the paper's system that is control's work beside the packets' threads, "
           "elsewhere it is theirs.",
           [Panel("", "consistency_insert", FLOWS, "ms", better=LESS)]),
    Figure("change", "A change of one VIP's pool",
           "CPU time from a change of one VIP's DIPs until lookups answer by it, over the flows that the VIP "
           "has. "
           "Systems that look at no flow pay nothing for them, and cannot tell which of them the change "
           "would move.",
           [Panel("", "consistency_change", "known flows of the VIP", "ms", better=LESS)]),
    Figure("churn", "Lookups while flows open",
           "Lookups a second of 1M known flows, by one thread that also opens so many each second, while control beside it "
           "takes them in and changes one VIP's pool in the middle. "
           "What a system does on the packets' thread for a flow that opens slows its lookups; a second is one of CPU time.",
           [Panel("", "consistency_churn", "new flows a second", "million lookups a second", better=MORE,
                  log="x", yrange="[0:*]")]),
    Figure("hour", "One hour of changes",
           "The same simulated hour for every system, of flows that come and go and 500 adds, drains, failures and other "
           "weights, with tables for all flows and, where their size is chosen, for half: flows that find themselves on "
           "another DIP, flows that met another one's entry, bytes at the end. "
           "Flows whose own DIP failed, or drained until it went, are lost with it and not counted.",
           [Panel("broken flows", "hour_broken", "", "flows", "bars", HOUR, "y", better=LESS),
            Panel("false hits", "hour_false_hits", "", "flows", "bars", HOUR, "y", better=LESS),
            Panel("memory at the end", "hour_bytes", "", "MiB", "bars", HOUR, "y", MIB, better=LESS)], columns=3),
    Figure("choice_ns", "Choosing a DIP",
           "Nanoseconds of CPU for one choice, in bursts of 32 random hashes, over the number of DIPs. "
           "Ways that read one cell of a table are flat until the table outgrows the caches, those that ask "
           "DIPs one by one grow with them.",
           _choice("choice_ns", "ns a choice", LESS, "xy")),
    Figure("choice_bytes", "Choosing a DIP: memory",
           "Bytes that a choice may read, over the number of DIPs. "
           "What a way needs for the next change only is not counted.",
           _choice("choice_bytes", "bytes", LESS, "xy")),
    Figure("choice_build", "Choosing a DIP: building",
           "CPU time to build what is read from nothing but the list of DIPs. "
           "A change on from what there is may be cheaper.",
           _choice("choice_build", "µs", LESS, "xy")),
    Figure("choice_shares", "Choosing a DIP: shares",
           "The share that is largest against its weight (1 is exact), and the coefficient of variation of "
           "all DIPs' shares over "
           "what their weights say. Both are exact, by the tables and not by drawing, for mixed weights from "
           "1 to 23.",
           [Panel("max / mean", "choice_max_mean", DIPS, "largest share / weight's", match=r"(\d+)_mixed",
                  better=LESS, log="x"),
            Panel("coefficient of variation", "choice_cv", DIPS, "percent", match=r"(\d+)_mixed",
                  better=LESS, log="x", yrange="[0:*]")]),
    Figure("choice_moves", "Choosing a DIP: moves",
           "Hashes that change their DIP when one DIP in a hundred comes, goes, fails and returns, or gets "
           "double the weight, over the "
           "least that any way must move; 1 is ideal. Mixed weights; below 1 is a way whose shares were not "
           "exact before.",
           _moves()),
    Figure("choice_agree", "Choosing a DIP: two balancers",
           "How many of all hashes two balancers send to the same DIP that have learnt of the same four "
           "changes in opposite order. "
           "Ways without history agree always; those that move little remember what was, and need one who "
           "tells them the order.",
           _choice("choice_agree", "percent", MORE, "x", yrange="[0:105]")),
    Figure("uniform", "Uniformity of Dcodes",
           "Medians of the p values of chi-squared and Kolmogorov-Smirnov tests over Dcodes, for three kinds "
           "of tuples and beside 0 to 16M "
           "pinned flows; MD5 and SHA-256 are the controls. A uniform hash has medians around 0.5, one that "
           "is not has them near 0.",
           [Panel("chi-squared", "uniform_chi2_p", "", "p", "points", r"(.*)", "", yrange="[0:1]", hline=0.5),
            Panel("Kolmogorov-Smirnov", "uniform_ks_p", "", "p", "points", r"(.*)", "", yrange="[0:1]", hline=0.5)],
           columns=1, panel_w=1000),
    Figure("dynamics", "Shares over time",
           "How far the DIPs' shares of new flows are from their weights, in the mean over DIPs, in windows "
           "of 10 s while weights change "
           "every 30 s, on three published distributions of data centres. `tournament` is exact in the mean: "
           "what it shows is chance.",
           _workloads("dynamics_share", "s", "error, percent of the share", r"NAME_(\d+)", kind="lines",
                      better=LESS, yrange="[0:*]",
                      layouts=("dcode", "maglev", "ketama", "tournament", "pow2_weights2")), columns=3),
    Figure("dynamics_cdf", "Errors of shares",
           "The same errors, of all DIPs in all windows: so many percent of them are at most so large. "
           "Percentiles 50, 90, 99 and 100 are drawn.",
           _workloads("dynamics_error_cdf", "error, percent of the share", "percent of DIPs and windows",
                      r"NAME_p(\d+)", kind="cdf", yrange="[45:101]"), columns=3),
    Figure("pipeline", "A packet, by mode",
           "CPU time that a small TCP packet takes in the worker, from its ring to the ring it leaves by, "
           "over the flows it is one of. "
           "2% of the flows are pinned; the modes take turns.",
           [Panel("", "pipeline", "flows", "ns a packet", "bars", log="")]),
    Figure("publish", "What a change costs the packets",
           "The pause of a saturated worker while a change is published, and the time from the change's "
           "request to its answer: planned "
           "for all flows, on disk, published. 2% of the Dcodes move each time; medians and 99th percentiles.",
           [Panel("pause of the worker", "publish", FLOWS, "ms", layouts=("pause_p50", "pause_p99")),
            Panel("change, answered", "change", FLOWS, "ms", layouts=("p50", "p99"))]),
]


def number(name):
    """64K -> 65536; names of other kinds are no numbers."""
    m = re.fullmatch(r"(\d+)([KM]?)", name)
    return int(m.group(1)) * {"": 1, "K": 2**10, "M": 2**20}[m.group(2)]
