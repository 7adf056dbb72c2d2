(* Runs the extracted semantics of sync programs: reads numbers, prints numbers.

   Input is a sequence of questions; lists come with their length, an option as 0 or 1 and the value.
   1 program steps: walk the steps, and of each state print `S` the state, `N` the steps that are possible,
   `F` its fault; `A` and the fault of a step where there is one, `U` where there is no meaning.
   2 program limit: search all states, and have the proved checker judge the set.
   3 program certificate: find which states stand at which line of the certificate, and have the proved checker
   judge that; prints `accepted` or `refused`, the number of states, of lines met, and of these with one step.
   4 program steps: walk the steps, and of each state print `I` and which of the possible steps are
   independent by the proved table, and leave each other possible, for each pair of them in order. *)

module S = Sync_semantics

(* Numbers *)

let rec positive n =
  if n = 1 then S.XH else if n land 1 = 1 then S.XI (positive (n lsr 1)) else S.XO (positive (n lsr 1))

let z n = if n = 0 then S.Z0 else if n > 0 then S.Zpos (positive n) else S.Zneg (positive (-n))
let rec nat n = if n = 0 then S.O else S.S (nat (n - 1))

let rec of_positive = function
  | S.XH -> 1
  | S.XI p -> (2 * of_positive p) + 1
  | S.XO p -> 2 * of_positive p

let of_z = function S.Z0 -> 0 | S.Zpos p -> of_positive p | S.Zneg p -> -of_positive p
let of_nat n = let rec up k = function S.O -> k | S.S n -> up (k + 1) n in up 0 n

(* Reading *)

let int () = Scanf.scanf " %d" (fun n -> n)
let read_nat () = nat (int ())
let read_z () = z (int ())
let read_bool () = int () = 1
let read_option item = if int () = 1 then Some (item ()) else None

let read_list item =
  let rec go n = if n = 0 then [] else let first = item () in first :: go (n - 1) in
  go (int ())

let rec read_expression () =
  match int () with
  | 0 -> S.Constant (read_z ())
  | 1 -> S.Name (read_nat ())
  | 2 -> S.Not (read_expression ())
  | _ ->
    let operator = List.nth S.operators (int ()) in
    let left = read_expression () in
    let right = read_expression () in
    S.Binary (operator, left, right)

let read_reference () = let name = read_nat () in let index = read_expression () in (name, index)
let proxies = [| S.Generic; S.Async; S.Tensormap; S.Cached (z 3); S.Cached (z 4); S.Cached (z 5) |]
let spaces = [| S.Shared; S.Tensor; S.Global; S.Register |]
let fences =
  [| S.FenceAsync; S.FenceRelease; S.FenceAcquire; S.FenceMapRelease; S.FenceMapAcquire; S.FenceInit;
     S.FenceCached (z 3); S.FenceCached (z 4); S.FenceCached (z 5) |]
let read_space () = spaces.(int ())

let read_effect () =
  let ef_buffer = read_nat () in
  let ef_stage = read_expression () in
  let ef_write = read_bool () in
  let ef_tile = read_option read_expression in
  let ef_part = read_option read_expression in
  let ef_proxy = proxies.(int ()) in
  let ef_accumulates = read_bool () in
  let ef_reduction = read_z () in
  { S.ef_buffer; ef_stage; ef_write; ef_tile; ef_part; ef_proxy; ef_accumulates; ef_reduction;
    ef_near = read_bool () }

let read_completion () = let r = read_reference () in let bytes = read_expression () in (r, bytes)

let read_operation () =
  match int () with
  | 0 -> S.Access (read_list read_effect)
  | 1 ->
    let site = read_nat () in
    let effects = read_list read_effect in
    let queue = read_option read_nat in
    let completes = read_list read_completion in
    S.Asynchronous (site, effects, queue, completes, read_z ())
  | 2 -> S.Commit (read_nat ())
  | 3 ->
    let queue = read_nat () in
    let pending = read_expression () in
    S.QueueWait (queue, pending, read_bool ())
  | 4 ->
    let site = read_nat () in
    let queue = read_nat () in
    let barrier = read_reference () in
    S.QueueArrive (site, queue, barrier, read_expression ())
  | 5 -> let barrier = read_reference () in S.Init (barrier, read_expression ())
  | 6 -> S.Invalidate (read_reference ())
  | 7 ->
    let barrier = read_reference () in
    let count = read_expression () in
    let bytes = read_expression () in
    let drop = read_bool () in
    S.Arrive (barrier, count, bytes, drop, read_bool ())
  | 8 -> let barrier = read_reference () in S.ExpectTransaction (barrier, read_expression ())
  | 9 ->
    let barrier = read_reference () in
    let parity = read_expression () in
    S.Wait (barrier, parity, read_option read_expression)
  | 10 -> S.TokenWait (read_reference ())
  | 11 -> let barrier = read_reference () in S.BarrierSync (barrier, read_expression ())
  | 12 -> let barrier = read_reference () in S.BarrierArrive (barrier, read_expression ())
  | 13 -> S.BarrierWait (read_reference ())
  | 14 -> let kind = fences.(int ()) in S.Fence (kind, read_list read_space)
  | 15 -> let pool = read_nat () in S.PoolTake (pool, read_expression ())
  | 16 -> let pool = read_nat () in S.PoolGive (pool, read_expression ())
  | 17 -> let variable = read_nat () in S.Assign (variable, read_expression ())
  | 18 ->
    let variable = read_nat () in
    let start = read_expression () in
    let stop = read_expression () in
    S.Loop (variable, start, stop, read_nat ())
  | 19 ->
    let condition = read_expression () in
    let yes = read_nat () in
    S.Branch (condition, yes, read_nat ())
  | n -> failwith (Printf.sprintf "no operation %d" n)

let read_size () = let outer = read_option read_nat in (outer, read_list read_z)

let read_agent () =
  let ag_threads = read_z () in
  let ag_cta = read_z () in
  let ag_member = read_z () in
  let ag_first = read_list read_z in
  let ag_entry = read_nat () in
  let ag_blocks = read_nat () in
  { S.ag_threads; ag_cta; ag_member; ag_first; ag_entry; ag_blocks; ag_sizes = read_list read_size }

let read_barrier () =
  let ba_count = read_z () in
  let ba_stages = read_z () in
  let ba_initialised = read_bool () in
  { S.ba_count; ba_stages; ba_initialised; ba_cta = read_z () }

let read_buffer () =
  let bu_storage = read_nat () in
  let bu_stages = read_z () in
  let bu_parts = read_z () in
  let bu_units = read_z () in
  let bu_offset = read_z () in
  let bu_space = read_space () in
  let bu_cta = read_z () in
  { S.bu_storage; bu_stages; bu_parts; bu_units; bu_offset; bu_space; bu_cta;
    bu_initial = read_option read_z }

let read_queue () =
  let qu_grouped = read_bool () in
  let qu_ordered = read_bool () in
  { S.qu_grouped; qu_ordered; qu_pipelined = read_bool () }

let read_policies () =
  let po_path = read_bool () in
  let po_war_fence = read_bool () in
  let po_init_assumed = read_bool () in
  let po_exit_allowed = read_bool () in
  let po_run_ahead = read_bool () in
  { S.po_path; po_war_fence; po_init_assumed; po_exit_allowed; po_run_ahead;
    po_in_order = read_bool () }

let read_program () =
  let pr_agents = read_list read_agent in
  let pr_blocks = read_list (fun () -> read_list read_operation) in
  let pr_barriers = read_list read_barrier in
  let pr_named = read_list read_z in
  let pr_buffers = read_list read_buffer in
  let pr_queues = read_list read_queue in
  let pr_pools = read_list read_z in
  { S.pr_agents; pr_blocks; pr_barriers; pr_named; pr_buffers; pr_queues; pr_pools;
    pr_policies = read_policies () }

let read_step () =
  let kind = int () in
  let agent = read_nat () in
  let ordinal = read_z () in
  match kind with
  | 0 -> S.AgentStep agent
  | 1 -> S.FinishStep (agent, ordinal)
  | _ -> S.ReadsStep (agent, ordinal)

(* Printing *)

let out = Buffer.create 65536
let show n = Buffer.add_char out ' '; Buffer.add_string out (string_of_int n)
let show_z n = show (of_z n)
let show_nat n = show (of_nat n)
let show_bool b = show (if b then 1 else 0)
let show_list item l = show (List.length l); List.iter item l
let show_key (name, index) = show_nat name; show_z index

let show_access (a : S.flight_access) =
  show_key a.fa_cell; show_bool a.fa_write; show_z a.fa_tile;
  show_z (S.code a.fa_proxy);
  (match a.fa_extent with None -> show 0 | Some (c, n) -> show 1; show_key c; show_z n);
  match a.fa_kind with
  | None -> show 0
  | Some ((x, y), n) -> show 1; List.iter show_z [ x; y; n ]

let show_flight (f : S.flight) =
  show_nat f.fl_agent; show_z f.fl_ordinal; show_nat f.fl_site;
  show_list show_access f.fl_accesses;
  show_list (fun (k, n) -> show_key k; show_z n) f.fl_completes;
  show_bool f.fl_reading; show_z f.fl_chunks

let show_set = show_list show_z
let show_marks = show_list (fun ((a, b), c) -> List.iter show_z [ a; b; c ])

let show_mbarrier (k, (b : S.mbarrier)) =
  show_key k;
  show (match b.mb_status with S.Absent -> 0 | S.Unpublished -> 1 | S.Usable -> 2);
  List.iter show_z [ b.mb_owner; b.mb_expected; b.mb_pending; b.mb_transaction; b.mb_phase ];
  show_set b.mb_tokens; show_bool b.mb_observed; show_set b.mb_armed

let show_state (s : S.state) =
  show_list (fun (q : S.position) ->
      show_list (fun (b, i) -> show_nat b; show_nat i) (List.rev q.frames);
      show_list show_z q.values) s.st_positions;
  show_list show_z s.st_issued;
  show_list show_mbarrier s.st_barriers;
  show_list (fun (k, (n : S.named)) ->
      show_key k; show_z n.na_arrived_threads; show_z n.na_expected_threads;
      List.iter show_set [ n.na_arrived; n.na_waiting; n.na_armed ]) s.st_named;
  show_list (fun (c, (h : S.content)) ->
      show_key c; show_z h.co_tile;
      List.iter show_set [ h.co_writers; h.co_readers; h.co_authors ];
      show_bool h.co_released;
      let m = h.co_marks in
      List.iter show_marks [ m.ma_inside; m.ma_outside; m.ma_released ]) s.st_cells;
  show_list (fun ((a, q), (g : S.groups)) ->
      show_nat a; show_nat q; show_list (show_list show_flight) g.gr_closed;
      show_list show_flight g.gr_open) s.st_queues;
  show_list show_flight s.st_free;
  show_list show_z s.st_pools

let fault_code = function
  | S.DataRace -> 201 | S.OverwriteInFlight -> 202 | S.ReadBeforeArrival -> 203 | S.StaleRead -> 204
  | S.Deadlock -> 205 | S.OverArrival -> 206 | S.TransactionMismatch -> 207
  | S.BarrierUninitialised -> 208 | S.BarrierLifecycle -> 209 | S.NamedBarrierMisuse -> 210
  | S.LeakAtExit -> 211 | S.LappedWait -> 212 | S.PoolMisuse -> 213 | S.IndexOutOfRange -> 214
  | S.UnobservedPhase -> 216 | S.MissingFence -> 301 | S.MissingFenceWar -> 302
  | S.UnpublishedInit -> 303 | S.MissingTensormapFence -> 304
  | S.MissingCachedFence -> 307

let line letter what =
  Buffer.add_char out letter; what (); Buffer.add_char out '\n';
  if Buffer.length out > 60000 then (print_string (Buffer.contents out); Buffer.clear out)

let outcome letter good = function
  | S.Done value -> line letter (fun () -> good value); true
  | S.Faulty (kind, agents) -> line 'A' (fun () -> show (fault_code kind); show_list show_nat agents); false
  | S.Undefined -> line 'U' ignore; false

let show_step x =
  let (kind, agent), ordinal = S.rank x in
  show_z kind; show_z agent; show_z ordinal

(* Questions *)

let walk program =
  let rec go state steps =
    ignore (outcome 'S' show_state (S.Done state));
    if outcome 'N' (show_list show_step) (S.steps program state) then begin
      (match S.state_fault program state with
       | S.Done () -> line 'F' (fun () -> show 0)
       | S.Faulty (kind, agents) -> line 'F' (fun () -> show (fault_code kind); show_list show_nat agents)
       | S.Undefined -> line 'U' ignore);
      match steps with
      | [] -> ()
      | x :: rest ->
        match S.apply_step program state x with
        | S.Done next -> go next rest
        | bad -> ignore (outcome 'S' show_state bad)
    end
  in
  let steps = read_list read_step in
  match S.initial program with
  | S.Done start -> go start steps
  | bad -> ignore (outcome 'S' show_state bad)

let pairs program =
  let rec go state steps =
    (match S.steps program state with
     | S.Done possible ->
       let ask x y = show_bool (S.independent program state x y && S.stays program state x y && S.stays program state y x) in
       let rec each = function [] -> () | x :: rest -> List.iter (ask x) rest; each rest in
       line 'I' (fun () -> each possible)
     | _ -> line 'U' ignore);
    match steps with
    | [] -> ()
    | x :: rest -> match S.apply_step program state x with S.Done next -> go next rest | _ -> ()
  in
  let steps = read_list read_step in
  match S.initial program with S.Done start -> go start steps | _ -> ()

exception Found_fault

let text state =
  let kept = Buffer.contents out in
  Buffer.clear out; show_state state;
  let found = Digest.string (Buffer.contents out) in
  Buffer.clear out; Buffer.add_string out kept; found

let close program =
  let limit = int () in
  let numbers = Hashtbl.create 1000 and waiting = Queue.create () in
  let done_ = function S.Done value -> value | _ -> raise Found_fault in
  let number state =
    let key = text state in
    match Hashtbl.find_opt numbers key with
    | Some n -> n
    | None ->
      let n = Hashtbl.length numbers + 1 in
      Hashtbl.add numbers key n; Queue.add (n, state) waiting; n
  in
  let rec all found =
    if Hashtbl.length numbers > limit then None
    else match Queue.take_opt waiting with
      | None -> Some found
      | Some (n, state) ->
        done_ (S.state_fault program state);
        let after x = positive (number (done_ (S.apply_step program state x))) in
        let next = List.map after (done_ (S.steps program state)) in
        all (S.PositiveMap.add (positive n) (state, next) found)
  in
  match let start = positive (number (done_ (S.initial program))) in
    (start, all S.PositiveMap.empty) with
  | exception Found_fault -> print_endline "faulty"
  | _, None -> print_endline "open"
  | start, Some found ->
    let verdict = if S.certified program found start then "certified" else "refused" in
    Printf.printf "%s %d\n" verdict (Hashtbl.length numbers)

(* Certificates: the lines it starts with, then each line: 0 and all steps, 1 and one step, 2 and the
   lines of a case split. Untrusted: which state stands at which line, found by following the lines. *)

let read_number () = positive (int () + 1)
let read_next () = let label = read_step () in (label, read_number ())

let read_line_of_certificate () =
  match int () with
  | 0 -> S.All (read_list read_next)
  | (1 | 3) as kind -> let label, next = read_next () in S.One (kind = 1, label, next)
  | _ -> S.Split (read_list read_number)

exception No_place

let follow program lines starts =
  let entries = ref [] and count = ref 0 in
  let places = Hashtbl.create 1000 and met = Hashtbl.create 1000 in
  let done_ = function S.Done value -> value | _ -> raise No_place in
  let rec place state n =
    let key = (text state, of_positive n) in
    match Hashtbl.find_opt places key with
    | Some (Some k) -> k
    | Some None -> raise No_place
    | None ->
      Hashtbl.add places key None;  (* and so if it comes back to itself *)
      let line = match Hashtbl.find_opt lines n with Some line -> line | None -> raise No_place in
      let next = successors state line in
      incr count;
      let k = positive !count in
      entries := { S.en_state = state; en_line = n; en_next = next } :: !entries;
      Hashtbl.replace places key (Some k);
      Hashtbl.replace met n (match line with S.One _ -> true | _ -> false);
      k
  and successors state line =
    match line with
    | S.Split next -> [ first state next ]
    | S.One (_, label, n) ->
      let at x = S.same_step (S.label state x) label in
      (match List.find_opt at (done_ (S.steps program state)) with
       | Some x -> [ place (done_ (S.apply_step program state x)) n ]
       | None -> raise No_place)
    | S.All next ->
      let steps = done_ (S.steps program state) in
      if List.length steps <> List.length next then raise No_place;
      List.map2 (fun x (l, n) ->
          if not (S.same_step (S.label state x) l) then raise No_place;
          place (done_ (S.apply_step program state x)) n) steps next
  and first state = function
    | [] -> raise No_place
    | n :: rest -> (try place state n with No_place -> first state rest)
  in
  let k = first (done_ (S.initial program)) starts in
  (k, List.rev !entries, met)

let judge program =
  let starts = read_list read_number in
  let lines = Hashtbl.create 1000 in
  let all = ref S.PositiveMap.empty in
  for n = 1 to int () do
    let line = read_line_of_certificate () in
    Hashtbl.replace lines (positive n) line;
    all := S.PositiveMap.add (positive n) line !all
  done;
  match follow program lines starts with
  | exception No_place -> print_endline "refused 0 0 0"
  | k, entries, met ->
    let verdict = if S.accepted program !all entries starts k then "accepted" else "refused" in
    let one = Hashtbl.fold (fun _ one n -> if one then n + 1 else n) met 0 in
    Printf.printf "%s %d %d %d\n" verdict (List.length entries) (Hashtbl.length met) one

let () =
  let rec questions () =
    match int () with
    | 1 -> walk (read_program ()); line 'E' ignore; questions ()
    | 2 -> close (read_program ()); questions ()
    | 3 -> judge (read_program ()); questions ()
    | 4 -> pairs (read_program ()); line 'E' ignore; questions ()
    | _ -> ()
    | exception End_of_file -> ()
  in
  questions ();
  print_string (Buffer.contents out)
