-- /// rule
-- title = "Communication is exposed"
-- bottleneck = "exposed_comm"
-- needs = ["step_cause"]
-- why = "Time in which the device only communicates, or the loop waits for a collective, and nothing computes."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- small_bytes = { default = 1048576, unit = "bytes", doc = "Collectives below this size are bound by latency and not by the link." }
-- many = { default = 20, doc = "So many small collectives a step are worth bundling." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- collectives_per_step = { type = "double", doc = "Communication kernels, or collective ranges without a device, per step." }
-- comm_ns = { type = "bigint", unit = "ns", doc = "Communication time per step, hidden or not." }
-- hidden_share = { type = "double", unit = "share", doc = "Share of the communication time that compute hides." }
-- mean_bytes = { type = "bigint", unit = "bytes", doc = "Mean size of a collective; NULL when the capture does not tell." }
-- top_op = { type = "varchar", doc = "The communication operation with the most time." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "collectives_per_step >= 20 and (mean_bytes is null or mean_bytes < 1048576)"
-- hypothesis = "{collectives_per_step} collectives a step of {mean_bytes} are bound by latency; fewer, larger ones move the same bytes in less time."
-- change = "bundle them: DDP bucket_cap_mb x 4 (or larger FSDP wrapping units); nothing else."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "hidden_share < 0.5"
-- hypothesis = "Only {hidden_share} of the communication is hidden; started earlier, it can run beside the backward pass."
-- change = "start it earlier: overlap of gradient reduction with backward, or prefetch of the next all-gather (FSDP backward_prefetch / forward_prefetch); nothing else."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{per_step_ns} a step of communication are exposed, mostly {top_op}."
-- change = "under gradient accumulation, reduce only in the last microstep (no_sync for the others); without accumulation, raise the share of backward that overlaps."
-- kind = "system optimization"
-- guards = ["version_specific_api", "global_scaling", "all_ranks_run_it", "loss_curve"]
-- ///
with rank_cost as (select * from class_cost where cause = 'exposed_comm'),
kernel as (
  select rank, count(*) as collectives, sum(busy_dur_ns) as comm_ns, arg_max(name, busy_dur_ns) as top_op
  from device_event
  where class = 'comm'
  group by rank
),
-- Without device work the collectives are ranges on background threads (gloo).
host_range as (
  select rank, count(*) as collectives, sum(dur_ns) as comm_ns, arg_max(name, dur_ns) as top_op
  from host_event
  where class = 'comm_range' and rank not in (select rank from kernel)
  group by rank
),
communication as (select * from kernel union all select * from host_range),
size as (select rank, avg(bytes)::bigint as mean_bytes from collective group by rank),
all_steps as (select rank, count(*) as steps from step group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'communication runs, or is waited for, while nothing computes'
    when communication.collectives is null then 'no collective in the capture'
    else 'compute hides the communication'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  communication.collectives / greatest(coalesce(all_steps.steps, 1), 1)::double as collectives_per_step,
  (communication.comm_ns // greatest(coalesce(all_steps.steps, 1), 1))::bigint as comm_ns,
  case
    when communication.comm_ns > 0 then greatest(0, 1 - rank_cost.per_step_ns / (communication.comm_ns / greatest(coalesce(all_steps.steps, 1), 1)))
  end as hidden_share,
  size.mean_bytes,
  communication.top_op,
  case
    when rank_cost.cost_share < $min_share and communication.collectives > 0 then 
      'larger buckets or another overlap: the communication is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
    when size.mean_bytes >= $small_bytes and communication.collectives >= $many then 'larger buckets: the collectives are large already'
  end as not_advised
from rank_cost
left join communication on communication.rank = rank_cost.rank
left join size on size.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
