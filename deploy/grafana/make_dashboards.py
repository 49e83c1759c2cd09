#!/usr/bin/env python3
"""Writes dashboards/*.json, Grafana's dashboards of Beamline, from the lists of panels below.

usage: make_dashboards.py [--out FOLDER]     default: dashboards beside this file
"""

import argparse
import json
import os

SERIES = 'job=~"$job",instance=~"$instance"'
MODEL = f'{SERIES},model=~"$model"'
MODEL_OF_JOB = 'job=~"$job",model=~"$model"'  # of recorded series, which are of all instances
RATE = "[$__rate_interval]"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of a row of panels


def total(metric, by, labels=MODEL):
    return f"sum by ({by}) (rate({metric}{{{labels}}}{RATE}))"


def quantile(q, metric, by="model", labels=MODEL):
    return f"histogram_quantile({q}, sum by ({by}, le) (rate({metric}_bucket{{{labels}}}{RATE})))"


def mean(metric, by="model", labels=MODEL):
    return f"{total(metric + '_sum', by, labels)} / {total(metric + '_count', by, labels)}"


def quantiles(metric, by="model", labels=MODEL):
    legend = " ".join(f"{{{{{name}}}}}" for name in by.split(", "))
    return [(quantile(q, metric, by, labels), f"{legend} {name}") for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))]


def panel(kind, title, description, targets, unit, width, height=8, defaults=None, options=None):
    """A panel without its place. targets: (expression, legend)."""
    shown = []
    for index, (expression, legend) in enumerate(targets):
        target = {"datasource": DATASOURCE, "expr": expression, "legendFormat": legend, "refId": chr(ord("A") + index)}
        if kind in ("table", "stat"):
            target["instant"] = True
        if kind == "table":
            target["format"] = "table"
        if kind == "heatmap":
            target["format"] = "heatmap"
        shown.append(target)
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},
        "targets": shown,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, **(defaults or {})}, "overrides": []},
        "options": options or {},
    }


def graph(title, description, targets, unit="short", width=8, stacked=False, most=None):
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if stacked else 5, "showPoints": "never",
              "stacking": {"mode": "normal" if stacked else "none"}}
    defaults = {"custom": custom} | ({"max": most} if most is not None else {})
    options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return panel("timeseries", title, description, targets, unit, width, 8, defaults, options)


def stat(title, description, expression, unit="short", steps=(), width=4):
    """steps: (from, colour) above green."""
    thresholds = {"mode": "absolute", "steps": [{"color": "green", "value": None}] + [{"color": c, "value": v} for v, c in steps]}
    options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "none"}
    return panel("stat", title, description, [(expression, "")], unit, width, 4, {"thresholds": thresholds}, options)


def heatmap(title, description, metric, unit="s", labels=MODEL):
    options = {"calculate": False, "yAxis": {"unit": unit}, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
               "tooltip": {"show": True}, "cellGap": 1}
    return panel("heatmap", title, description, [(f"sum by (le) (rate({metric}_bucket{{{labels}}}{RATE}))", "{{le}}")], unit, 12, 8, None, options)


def table(title, description, expression, hidden=()):
    made = panel("table", title, description, [(expression, "")], "short", 12)
    made["transformations"] = [{"id": "organize", "options": {"excludeByName": {name: True for name in ("Time", "__name__", *hidden)}}}]
    return made


ERRORS = 'code=~"INTERNAL|UNAVAILABLE|RESOURCE_EXHAUSTED|UNKNOWN|DATA_LOSS"'

OVERVIEW = [
    stat("Servers", "Processes that answer scrapes.", f'count(beamline_accepting{{{SERIES}}})'),
    stat("Replicas down", "Replicas whose device has failed.", f"count(beamline_replica_up{{{SERIES}}}) - sum(beamline_replica_up{{{SERIES}}})",
         steps=((1, "red"),)),
    stat("Requests", "Calls that ended, of all codes.", f"sum(rate(beamline_requests_total{{{MODEL}}}{RATE}))", "reqps"),
    stat("Failed", "Share of the calls that ended by a fault or a refusal of the server.",
         f"(sum(rate(beamline_requests_total{{{MODEL},{ERRORS}}}{RATE})) or vector(0)) / sum(rate(beamline_requests_total{{{MODEL}}}{RATE}))",
         "percentunit", ((0.001, "orange"), (0.01, "red"))),
    stat("First token, p99", "From acceptance to the first token, of all models.",
         f"histogram_quantile(0.99, sum by (le) (rate(beamline_time_to_first_token_seconds_bucket{{{MODEL}}}{RATE})))", "s",
         ((0.5, "orange"), (2, "red"))),
    stat("Waiting", "Requests accepted and not yet in a batch.", f"sum(beamline_waiting_requests{{{MODEL}}})", steps=((64, "orange"), (512, "red"))),
    graph("Requests by model", "Calls that ended.", [(total("beamline_requests_total", "model"), "{{model}}")], "reqps", stacked=True),
    graph("Requests by RPC", "Calls that ended.", [(total("beamline_requests_total", "rpc"), "{{rpc}}")], "reqps", stacked=True),
    graph("Requests by code", "gRPC's status codes, without OK.",
          [(total("beamline_requests_total", "code", MODEL + ',code!="OK"'), "{{code}}")], "reqps"),
    graph("First token", "From acceptance to the first token.", quantiles("beamline_time_to_first_token_seconds"), "s"),
    graph("Embeddings", "Encode and EncodeMany, from a call's arrival to its last byte.",
          quantiles("beamline_request_duration_seconds", labels=MODEL + ',rpc=~"Encode|EncodeMany"'), "s"),
    graph("Tokens", "Generated, and of inputs that were embedded.",
          [(total("beamline_generated_tokens_total", "model") + " > 0", "{{model}} generated"),
           (total("beamline_encoded_tokens_total", "model") + " > 0", "{{model}} embedded")]),
    graph("Running and waiting", "Sequences in the batch; requests accepted and not yet in it.",
          [(f"sum by (model) (beamline_running_sequences{{{MODEL}}})", "{{model}} running"),
           (f"sum by (model) (beamline_waiting_requests{{{MODEL}}})", "{{model}} waiting")]),
    graph("Refused before any work", "By reason; draining is that of a server that stops.",
          [(total("beamline_rejected_total", "reason", SERIES), "{{reason}}")], "reqps"),
    graph("Cancelled and given up", "Requests whose client went away or cancelled; whose deadline was too near when their turn came.",
          [(total("beamline_cancelled_total", "model"), "{{model}} cancelled"),
           (total("beamline_hopeless_total", "model"), "{{model}} given up")], "reqps"),
    graph("Quotas", "Tokens of clients that have a quota, a second: used by requests that are over; that refused requests might have used.",
          [(total("beamline_quota_tokens_total", "outcome", SERIES), "{{outcome}}")]),
    graph("Clients with quotas", "Whose tokens are being counted: those that have used some lately.",
          [(f"sum by (instance) (beamline_quota_clients{{{SERIES}}})", "{{instance}}")]),
]

LATENCY = [
    graph("First token", "From acceptance to the first token.", quantiles("beamline_time_to_first_token_seconds"), "s", 12),
    graph("Between tokens", "Mean time between the tokens of one request.", quantiles("beamline_inter_token_seconds"), "s", 12),
    heatmap("First token", "How many requests had their first token within which time.", "beamline_time_to_first_token_seconds"),
    heatmap("Between tokens", "How many requests had which mean time between their tokens.", "beamline_inter_token_seconds"),
    graph("Queue", "From acceptance to the first step.", quantiles("beamline_queue_seconds"), "s"),
    graph("Queue, as expected", "What it was expected to be when requests came.", quantiles("beamline_expected_queue_seconds"), "s"),
    graph("Expected queue and true one", "Its mean as requests were told and as it was; the oldest request that waits; the wait behind all.",
          [(mean("beamline_expected_queue_seconds"), "{{model}} expected"), (mean("beamline_queue_seconds"), "{{model}} was"),
           (f"max by (model) (beamline_oldest_waiting_seconds{{{MODEL}}})", "{{model}} oldest"),
           (f"max by (model) (beamline_expected_wait_seconds{{{MODEL}}})", "{{model}} behind all")], "s"),
    graph("Waiting tokens", "To be read, of the requests that wait.",
          [(f"sum by (model) (beamline_waiting_tokens{{{MODEL}}})", "{{model}}")]),
    graph("Prefill", "From the first step to the first token.", quantiles("beamline_prefill_seconds"), "s"),
    graph("Mean shares of the first token", "What it consists of.",
          [(mean("beamline_queue_seconds"), "{{model}} queue"), (mean("beamline_prefill_seconds"), "{{model}} prefill")], "s"),
    graph("Calls by RPC, p50", "From a call's arrival to its last byte.",
          [(quantile(0.5, "beamline_request_duration_seconds", "rpc"), "{{rpc}}")], "s", 12),
    graph("Calls by RPC, p99", "From a call's arrival to its last byte.",
          [(quantile(0.99, "beamline_request_duration_seconds", "rpc"), "{{rpc}}")], "s", 12),
    graph("Step, p50", "One step of a model, by phase.", [(quantile(0.5, "beamline_step_seconds", "model, phase"), "{{model}} {{phase}}")], "s", 12),
    graph("Step, p99", "One step of a model, by phase.", [(quantile(0.99, "beamline_step_seconds", "model, phase"), "{{model}} {{phase}}")], "s", 12),
    heatmap("Calls", "How many calls took which time, of all RPCs.", "beamline_request_duration_seconds"),
    heatmap("Steps", "How many steps took which time, of all phases.", "beamline_step_seconds"),
]

BATCHING = [
    graph("Sequences in a step", "Mean and p95.", [(mean("beamline_batch_sequences"), "{{model}} mean"),
                                                   (quantile(0.95, "beamline_batch_sequences"), "{{model}} p95")]),
    graph("Tokens in a step", "Mean and p95; max_batch_tokens is the most.",
          [(mean("beamline_batch_tokens"), "{{model}} mean"), (quantile(0.95, "beamline_batch_tokens"), "{{model}} p95")]),
    graph("Steps", "By phase.", [(total("beamline_step_seconds_count", "model, phase"), "{{model}} {{phase}}")], "ops"),
    graph("Share of time in steps", "How much of its time a model computes; near 1 it is saturated.",
          [(total("beamline_step_seconds_sum", "instance, model"), "{{instance}} {{model}}")], "percentunit"),
    graph("Running sequences", "In the batch now; max_sequences is the most.",
          [(f"sum by (instance, model) (beamline_running_sequences{{{MODEL}}})", "{{instance}} {{model}}")]),
    graph("Waiting requests", "Accepted and not yet in the batch.",
          [(f"sum by (instance, model) (beamline_waiting_requests{{{MODEL}}})", "{{instance}} {{model}}")]),
    graph("Cache in use", "Share of the key/value cache's blocks.",
          [(f"model:beamline_kv_used:ratio{{{MODEL}}}", "{{instance}} {{model}}")], "percentunit", most=1),
    graph("Cache blocks", "By state.", [(f"sum by (model, state) (beamline_kv_blocks{{{MODEL}}})", "{{model}} {{state}}")], stacked=True),
    graph("Preemptions", "Sequences put back for want of blocks; they are computed again.",
          [(total("beamline_preemptions_total", "instance, model"), "{{instance}} {{model}}")], "ops"),
    graph("Prompt tokens", "Computed, and found in the cache.",
          [(total("beamline_prompt_tokens_total", "model, source"), "{{model}} {{source}}")], stacked=True),
    graph("Prompt tokens found in the cache", "Share of all prompt tokens.",
          [(f"model:beamline_prefix_cache_hit:ratio_rate5m{{{MODEL_OF_JOB}}}", "{{model}}")], "percentunit", most=1),
    graph("Prompt tokens of a request", "Prompt or inputs, cached tokens included.", quantiles("beamline_request_prompt_tokens")),
    graph("Generated tokens of a request", "All sequences of the answer together.", quantiles("beamline_request_generated_tokens")),
    graph("Guessed tokens that were right", "Share of those proposed; models with speculative_tokens.",
          [(f'sum by (model) (rate(beamline_speculative_tokens_total{{{MODEL},outcome="accepted"}}{RATE})) '
            f'/ (sum by (model) (rate(beamline_speculative_tokens_total{{{MODEL},outcome="proposed"}}{RATE})) > 0)', "{{model}}")],
          "percentunit", most=1),
]

DEVICES = [
    table("Models", "What is loaded, and where.", f"beamline_model_info{{{MODEL}}}", ("Value",)),
    table("Replicas", "Value 1: can answer. 0: its device has failed, or it is being loaded anew.", f"beamline_replica_up{{{MODEL}}}"),
    graph("Expected wait", "Of a request that comes now, by replica: what the router goes by.",
          [(f"beamline_replica_expected_wait_seconds{{{MODEL}}}", "{{model}} {{replica}}")], "s"),
    graph("Steps by replica", "How evenly replicas work.",
          [(f"rate(beamline_replica_steps_total{{{MODEL}}}{RATE})", "{{model}} {{replica}}")], "ops"),
    graph("Replicas loaded anew, requests begun again", "1 while a replica is being loaded; how often that was, and how many requests it moved.",
          [(f"beamline_replica_restarting{{{MODEL}}}", "{{model}} {{replica}} loading"),
           (f"increase(beamline_replica_restarts_total{{{MODEL}}}{RATE})", "{{model}} {{replica}} restarts"),
           (f"increase(beamline_reruns_total{{{MODEL}}}{RATE})", "{{model}} reruns")], "short"),
    table("Builds", "Versions and revisions that run.", f"beamline_build_info{{{SERIES}}}", ("Value", "job")),
    graph("Memory of models", "By use.", [(f"sum by (instance, device, use) (beamline_device_memory_bytes{{{MODEL}}})", "{{instance}} {{device}} {{use}}")],
          "bytes", stacked=True),
    graph("Memory by model", "All uses.", [(f"sum by (instance, device, model) (beamline_device_memory_bytes{{{MODEL}}})", "{{instance}} {{device}} {{model}}")],
          "bytes", stacked=True),
    graph("Unused share of a GPU", "What the server took at start and no model holds.",
          [(f"beamline_device_memory_unused_bytes{{{SERIES}}}", "{{instance}} {{device}}")], "bytes"),
    graph("Memory of the process", "In RAM, and address space.",
          [(f"process_resident_memory_bytes{{{SERIES}}}", "{{instance}} in RAM"), (f"process_virtual_memory_bytes{{{SERIES}}}", "{{instance}} address space")],
          "bytes"),
    graph("CPU", "Cores in use.", [(f"rate(process_cpu_seconds_total{{{SERIES}}}{RATE})", "{{instance}}")]),
    graph("Threads", "Of the process.", [(f"process_threads{{{SERIES}}}", "{{instance}}")]),
    graph("Descriptors", "Open, of those that may be.", [(f"process_open_fds{{{SERIES}}} / process_max_fds", "{{instance}}")], "percentunit"),
    graph("Connections", "By state.", [(f"sum by (instance, state) (beamline_connections_open{{{SERIES}}})", "{{instance}} {{state}}")]),
    graph("New connections", "Accepted, and those that waited as their address opens many.",
          [(total("beamline_connections_accepted_total", "instance", SERIES), "{{instance}}"),
           (total("beamline_connections_paced_total", "instance", SERIES), "{{instance}} paced")], "cps"),
    graph("Refused connections", "By reason; and attempts to accept one that failed.",
          [(total("beamline_connections_refused_total", "instance, reason", SERIES), "{{instance}} {{reason}}"),
           (total("beamline_accept_errors_total", "instance", SERIES), "{{instance}} accept error")], "cps"),
    graph("Bytes of unfinished requests", "Kept of requests that are not whole.",
          [(f"beamline_unfinished_bytes{{{SERIES}}}", "{{instance}}")], "bytes"),
    graph("Unfinished requests", "Calls whose request is not whole: read, or waiting for a place; streams that wait; and those ended for it.",
          [(f"sum by (instance, state) (beamline_unfinished_requests{{{SERIES}}})", "{{instance}} {{state}}"),
           (total("beamline_late_requests_total", "instance", SERIES), "{{instance}} ended a second")]),
    graph("Answers over HTTP", "By status, where http_listen is set.",
          [(total("beamline_http_answers_total", "instance, status", SERIES), "{{instance}} {{status}}")], "reqps"),
    graph("HTTP connections", "Open, where http_listen is set.", [(f"beamline_http_connections_open{{{SERIES}}}", "{{instance}}")]),
    graph("Refused HTTP connections", "By reason.",
          [(total("beamline_http_connections_refused_total", "instance, reason", SERIES), "{{instance}} {{reason}}")], "cps"),
    graph("Spans", "Of traced requests: sent to the collector, or dropped.", [(total("beamline_spans_total", "instance, outcome", SERIES), "{{instance}} {{outcome}}")], "ops"),
    graph("Certificates", "Time until the first certificate of a file ends, where TLS is spoken.",
          [(f"beamline_tls_certificate_expiry_timestamp_seconds{{{SERIES}}} - time()", "{{instance}} {{file}}")], "s"),
    graph("Accepting", "1, or 0 while new connections are refused.", [(f"beamline_accepting{{{SERIES}}}", "{{instance}}")], most=1),
    graph("Connection guard", "By kind of connections: 1, or 0 where floods are not ended.",
          [(f"beamline_connection_guard{{{SERIES}}}", "{{instance}} {{kind}}")], most=1),
    graph("Uptime", "Since the process began.", [(f"time() - process_start_time_seconds{{{SERIES}}}", "{{instance}}")], "s"),
    graph("Scrapes", "How often /metrics is read.", [(total("exposer_scrapes_total", "instance", SERIES), "{{instance}}")], "ops"),
]


def burn(window):
    return f"model:beamline_slo_errors:ratio_rate{window}{{{MODEL_OF_JOB}}} / on (slo) group_left () (1 - beamline:slo_objective:ratio)"


SLO = [
    panel("table", "Objectives", "Set in deploy/prometheus/rules/recording.yaml.", [("beamline:slo_objective:ratio", "")], "percentunit", 8),
    graph("Budget left, of 3 days", "1: nothing of it was used. Below 0: more than there was.",
          [(f"1 - {burn('3d')}", "{{model}} {{slo}}")], "percentunit", 16, most=1),
    graph("Burn rate, 5 minutes and 1 hour", "1 uses the budget up in its 30 days; above 14.4 in both BeamlineBudgetBurnsFast pages.",
          [(burn("5m"), "{{model}} {{slo}} 5 min"), (burn("1h"), "{{model}} {{slo}} 1 h")], width=12),
    graph("Burn rate, 30 minutes and 6 hours", "Above 6 in both BeamlineBudgetBurnsFast pages.",
          [(burn("30m"), "{{model}} {{slo}} 30 min"), (burn("6h"), "{{model}} {{slo}} 6 h")], width=12),
    graph("Burn rate, 2 hours and 1 day", "Above 3 in both BeamlineBudgetBurnsSlowly writes a ticket.",
          [(burn("2h"), "{{model}} {{slo}} 2 h"), (burn("1d"), "{{model}} {{slo}} 1 d")], width=12),
    graph("Bad requests", "Share of all, over five minutes.",
          [(f"model:beamline_slo_errors:ratio_rate5m{{{MODEL_OF_JOB}}}", "{{model}} {{slo}}")], "percentunit", 12),
    table("Alerts", "Pending and firing.", 'ALERTS{alertname=~"Beamline.*"}', ("Value",)),
    graph("First token and queue", "Recorded p99 of the first token and p95 of the wait.",
          [(f"model:beamline_time_to_first_token_seconds:p99_5m{{{MODEL_OF_JOB}}}", "{{model}} first token p99"),
           (f"model:beamline_queue_seconds:p95_5m{{{MODEL_OF_JOB}}}", "{{model}} queue p95")], "s", 12),
]
for slo_panel in SLO:
    if "Budget" in slo_panel["title"]:
        del slo_panel["fieldConfig"]["defaults"]["min"]

DASHBOARDS = {"overview": ("Overview", OVERVIEW), "latency": ("Latency", LATENCY), "batching-and-cache": ("Batching and cache", BATCHING),
              "models-and-devices": ("Models and devices", DEVICES), "slo": ("SLO", SLO)}


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*", "sort": 1, "current": {"text": ["All"], "value": ["$__all"]}}


def place(panels):
    """Fills rows from the left; a panel that does not fit begins the next one."""
    x = y = row_height = 0
    for index, one in enumerate(panels, 1):
        position = one["gridPos"]
        if x + position["w"] > WIDTH:
            x, y, row_height = 0, y + row_height, 0
        one["id"], position["x"], position["y"] = index, x, y
        x, row_height = x + position["w"], max(row_height, position["h"])
    return panels


def dashboard(name, title, panels):
    return {
        "uid": f"beamline-{name}",
        "title": f"Beamline / {title}",
        "tags": ["beamline"],
        "schemaVersion": 37,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Beamline", "tags": ["beamline"], "asDropdown": True, "keepTime": True, "includeVars": True}],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
            variable("job", "Job", "label_values(beamline_accepting, job)"),
            variable("instance", "Server", 'label_values(beamline_accepting{job=~"$job"}, instance)'),
            variable("model", "Model", 'label_values(beamline_requests_total{job=~"$job"}, model)')]},
        "panels": place(panels),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "dashboards"))
    options = parser.parse_args()
    for name, (title, panels) in DASHBOARDS.items():
        with open(os.path.join(options.out, f"beamline-{name}.json"), "w", encoding="utf-8") as file:
            json.dump(dashboard(name, title, panels), file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
