(** Executable semantics of the sync program, to be held against the reference interpreter.

    [initial], [steps], [apply] and [state_fault] say what titan/sync says: same states, same order
    of steps, same faults. Expressions and their values are those of Expression.v, so that the
    theorems of AnyNumber.v on degrees speak of these programs. All operations are here but computations, which no engine
    knows. Names are numbers: of an agent first its variables, then its own number, then the sizes. *)

From Coq Require Import Bool ZArith List.
From Titan Require Import Expression.
Import ListNotations.
Open Scope Z_scope.

(** ** Programs *)

(* [Cached]: 3 constant, 4 texture, 5 surface. *)
Inductive proxy := Generic | Async | Tensormap | Cached (cache : Z).
Inductive space := Shared | Tensor | Global | Register.
Inductive fence_kind :=
| FenceAsync | FenceRelease | FenceAcquire | FenceMapRelease | FenceMapAcquire | FenceInit
| FenceCached (cache : Z).

Definition reference : Type := nat * expression.

Record effect := Effect {
  ef_buffer : nat; ef_stage : expression; ef_write : bool; ef_tile : option expression;
  ef_part : option expression; ef_proxy : proxy; ef_accumulates : bool;
  ef_reduction : Z; ef_near : bool }.  (* operator of a reduction, 0: none; of CTA scope *)

Inductive operation :=
| Access (effects : list effect)
| Asynchronous (site : nat) (effects : list effect) (queue : option nat)
    (completes : list (reference * expression)) (chunks : Z)
| Commit (queue : nat)
| QueueWait (queue : nat) (pending : expression) (reads : bool)
| QueueArrive (site queue : nat) (barrier : reference) (count : expression)
| Init (barrier : reference) (count : expression)
| Invalidate (barrier : reference)
| Arrive (barrier : reference) (count transaction : expression) (drop token : bool)
| ExpectTransaction (barrier : reference) (bytes : expression)
| Wait (barrier : reference) (parity : expression) (phase : option expression)
| TokenWait (barrier : reference)
| BarrierSync (barrier : reference) (threads : expression)
| BarrierArrive (barrier : reference) (threads : expression)
| BarrierWait (barrier : reference)
| Fence (kind : fence_kind) (spaces : list space)
| PoolTake (pool : nat) (amount : expression)
| PoolGive (pool : nat) (amount : expression)
| Assign (variable : nat) (value : expression)
| Loop (variable : nat) (start stop : expression) (body : nat)
| Branch (condition : expression) (then_ otherwise : nat).

Record agent := Agent {
  ag_threads : Z; ag_cta : Z; ag_member : Z; ag_first : list Z;
  ag_entry : nat; ag_blocks : nat;  (* its blocks are numbered from [ag_entry] on *)
  ag_sizes : list (option nat * list Z) }.  (* a size, or one for each value of a variable *)

Record buffer := Buffer {
  bu_storage : nat; bu_stages : Z; bu_parts : Z; bu_units : Z; bu_offset : Z; bu_space : space;
  bu_cta : Z; bu_initial : option Z }.

Record barrier := Barrier { ba_count : Z; ba_stages : Z; ba_initialised : bool; ba_cta : Z }.

Record queue := Queue { qu_grouped : bool; qu_ordered : bool; qu_pipelined : bool }.

Record policies := Policies {
  po_path : bool; po_war_fence : bool; po_init_assumed : bool; po_exit_allowed : bool;
  po_run_ahead : bool; po_in_order : bool }.

Record program := Program {
  pr_agents : list agent; pr_blocks : list (list operation); pr_barriers : list barrier;
  pr_named : list Z; pr_buffers : list buffer; pr_queues : list queue; pr_pools : list Z;
  pr_policies : policies }.

(** ** States *)

Definition key : Type := nat * Z.   (* a declared array and an index; of memory: storage, unit *)
Definition cell : Type := key.

Record position := Position { frames : list (nat * nat); values : list Z }.  (* innermost first *)

Definition mark : Type := Z * Z * Z.

(* [fa_kind]: of a reduction its operator, proxy and CTA, -1: all. *)
Record flight_access := FlightAccess {
  fa_cell : cell; fa_write : bool; fa_tile : Z; fa_proxy : proxy;
  fa_extent : option (cell * Z); fa_kind : option mark }.

Record flight := Flight {
  fl_agent : nat; fl_ordinal : Z; fl_site : nat; fl_accesses : list flight_access;
  fl_completes : list (key * Z); fl_reading : bool; fl_chunks : Z;
  fl_total : Z; fl_marker : bool; fl_queue : option nat }.

Inductive status := Absent | Unpublished | Usable.

Record mbarrier := Mbarrier {
  mb_status : status; mb_owner : Z; mb_expected : Z; mb_pending : Z; mb_transaction : Z;
  mb_phase : Z; mb_tokens : list Z; mb_observed : bool; mb_armed : list Z }.

Record named := Named {
  na_arrived_threads : Z; na_expected_threads : Z; na_arrived : list Z; na_waiting : list Z;
  na_armed : list Z }.

(* [ma_inside]: proxy, agent, write; [ma_outside]: proxy, CTA, write; [ma_released]: author, issuer, write. *)
Record marks := Marks { ma_inside : list mark; ma_outside : list mark; ma_released : list mark }.

Record content := Content {
  co_tile : Z; co_writers : list Z; co_readers : list Z; co_authors : list Z; co_released : bool;
  co_marks : marks }.

Record groups := Groups { gr_closed : list (list flight); gr_open : list flight }.

Record state := State {
  st_positions : list position; st_issued : list Z; st_barriers : list (key * mbarrier);
  st_named : list (key * named); st_cells : list (cell * content);
  st_queues : list ((nat * nat) * groups); st_free : list flight; st_pools : list Z }.

Inductive fault_kind :=
| DataRace | OverwriteInFlight | ReadBeforeArrival | StaleRead | Deadlock | OverArrival
| TransactionMismatch | BarrierUninitialised | BarrierLifecycle | NamedBarrierMisuse | LeakAtExit
| LappedWait | PoolMisuse | IndexOutOfRange | UnobservedPhase | MissingFence | MissingFenceWar
| UnpublishedInit | MissingTensormapFence | MissingCachedFence.

(** [Undefined]: a division by zero, a loop without operations, or a name that is not declared. *)
Inductive outcome (A : Type) :=
| Done (value : A)
| Faulty (kind : fault_kind) (agents : list nat)
| Undefined.
Arguments Done {A}. Arguments Faulty {A}. Arguments Undefined {A}.

Definition bind {A B} (x : outcome A) (f : A -> outcome B) : outcome B :=
  match x with Done a => f a | Faulty k l => Faulty k l | Undefined => Undefined end.
Notation "'let*' x ':=' a 'in' b" := (bind a (fun x => b)) (at level 200, x pattern, a at level 100).

Definition got {A} (x : option A) : outcome A :=
  match x with Some a => Done a | None => Undefined end.

Definition guard (bad : bool) (k : fault_kind) (l : list nat) : outcome unit :=
  if bad then Faulty k l else Done tt.

Fixpoint each {A B} (f : A -> outcome B) (l : list A) : outcome (list B) :=
  match l with
  | [] => Done []
  | a :: l => let* b := f a in let* bs := each f l in Done (b :: bs)
  end.

Fixpoint fold {A S} (f : S -> A -> outcome S) (s : S) (l : list A) : outcome S :=
  match l with [] => Done s | a :: l => let* s := f s a in fold f s l end.

(** ** Tables and sets *)

Section Tables.
Context {K V : Type} (same : K -> K -> bool).

Fixpoint find (k : K) (l : list (K * V)) : option V :=
  match l with [] => None | (h, v) :: l => if same k h then Some v else find k l end.

Fixpoint put (k : K) (v : V) (l : list (K * V)) : list (K * V) :=
  match l with
  | [] => [(k, v)]
  | (h, w) :: l => if same k h then (k, v) :: l else (h, w) :: put k v l
  end.
End Tables.

Definition same_key (a b : key) : bool := (fst a =? fst b)%nat && (snd a =? snd b).
Definition same_pair (a b : nat * nat) : bool := (fst a =? fst b)%nat && (snd a =? snd b)%nat.
Definition same_name (a b : option nat) : bool :=
  match a, b with Some a, Some b => (a =? b)%nat | None, None => true | _, _ => false end.
Definition same_extent (a b : option (cell * Z)) : bool :=
  match a, b with
  | Some (c, n), Some (d, m) => same_key c d && (n =? m)
  | None, None => true
  | _, _ => false
  end.
Definition same_space (a b : space) : bool :=
  match a, b with
  | Shared, Shared | Tensor, Tensor | Global, Global | Register, Register => true
  | _, _ => false
  end.
Definition is_generic (p : proxy) : bool := match p with Generic => true | _ => false end.
Definition code (p : proxy) : Z :=
  match p with Generic => 0 | Async => 1 | Tensormap => 2 | Cached n => n end.
Definition is_cached (p : proxy) : bool := match p with Cached _ => true | _ => false end.
Definition is_async (p : proxy) : bool := match p with Async => true | _ => false end.
Definition is_absent (s : status) : bool := match s with Absent => true | _ => false end.
Definition is_unpublished (s : status) : bool :=
  match s with Unpublished => true | _ => false end.

Fixpoint set_nth {A} (n : nat) (v : A) (l : list A) : list A :=
  match l, n with
  | [], _ => []
  | _ :: l, O => v :: l
  | h :: l, S n => h :: set_nth n v l
  end.

(* Sets of numbers are lists in rising order. *)
Definition inside (x : Z) (l : list Z) : bool := existsb (Z.eqb x) l.
Fixpoint add (x : Z) (l : list Z) : list Z :=
  match l with
  | [] => [x]
  | h :: l => if x <? h then x :: h :: l else if x =? h then h :: l else h :: add x l
  end.
Definition union (a b : list Z) : list Z := fold_right add b a.
Definition without (gone l : list Z) : list Z := filter (fun x => negb (inside x gone)) l.
Definition is_empty {A} (l : list A) : bool := match l with [] => true | _ => false end.

Definition before_mark (x y : mark) : comparison :=
  let '(a, b, c) := x in
  let '(d, e, f) := y in
  match a ?= d with
  | Datatypes.Eq => match b ?= e with Datatypes.Eq => c ?= f | o => o end
  | o => o
  end.
Definition same_mark (x y : mark) : bool :=
  match before_mark x y with Datatypes.Eq => true | _ => false end.
Fixpoint add_mark (x : mark) (l : list mark) : list mark :=
  match l with
  | [] => [x]
  | y :: l => match before_mark x y with
              | Datatypes.Lt => x :: y :: l
              | Datatypes.Eq => y :: l
              | Datatypes.Gt => y :: add_mark x l
              end
  end.
Definition has_mark (x : mark) (l : list mark) : bool := existsb (same_mark x) l.
Definition no_marks : marks := Marks [] [] [].

Fixpoint range (first : Z) (count : nat) : list Z :=
  match count with O => [] | S n => first :: range (first + 1) n end.
Definition below (n : Z) : list Z := range 0 (Z.to_nat n).

Definition undefined_tile : Z := - 2 ^ 40.
Definition any_tile : Z := undefined_tile + 1.
Definition engine : Z := -1.
Definition transaction_max : Z := 2 ^ 20 - 1.
Definition local_steps_max : nat := Z.to_nat 10000.

(** ** The machine *)

Section Machine.
Variable p : program.

Definition op_at (block index : nat) : option operation :=
  match nth_error (pr_blocks p) block with Some b => nth_error b index | None => None end.

Definition agent_of (a : nat) : outcome agent := got (nth_error (pr_agents p) a).
Definition cta_of (a : nat) : Z :=
  match nth_error (pr_agents p) a with Some g => ag_cta g | None => 0 end.

(** *** Names in scope *)

Definition size_of (known : nat -> Z) (entry : option nat * list Z) : Z :=
  let number := match fst entry with Some x => known x | None => 0 end in
  let last := Z.of_nat (length (snd entry)) - 1 in
  nth (Z.to_nat (Z.min (Z.max number 0) last)) (snd entry) 0.

Definition environment (g : agent) (vs : list Z) : nat -> Z :=
  let n := length vs in
  let own x := if (x =? n)%nat then ag_member g else nth x vs 0 in
  fun x => if (x <=? n)%nat then own x
           else match nth_error (ag_sizes g) (x - n - 1) with
                | Some entry => size_of own entry
                | None => 0
                end.

Definition value (env : nat -> Z) (e : expression) : outcome Z := got (eval env e).
Definition key_of (env : nat -> Z) (r : reference) : outcome key :=
  let* i := value env (snd r) in Done (fst r, i).

(** *** Control flow *)

Definition op_of (q : position) : option operation :=
  match frames q with [] => None | (b, i) :: _ => op_at b i end.

Definition tested (g : agent) (b i : nat) (outer : list (nat * nat)) (vs : list Z)
    (x : nat) (stop : expression) (body : nat) : outcome (list (nat * nat)) :=
  let env := environment g vs in
  let* limit := value env stop in
  Done (if env x <? limit then (body, O) :: (b, i) :: outer else (b, S i) :: outer).

Fixpoint settle (fuel : nat) (g : agent) (fs : list (nat * nat)) (vs : list Z) : outcome position :=
  match fuel with
  | O => Undefined
  | S fuel =>
    match fs with
    | [] => Done (Position [] vs)
    | (b, i) :: outer =>
      match op_at b i with
      | None =>
        match outer with
        | [] => Done (Position [] vs)
        | (c, j) :: rest =>
          match op_at c j with
          | Some (Loop x _ stop body) =>
            let vs := set_nth x (nth x vs 0 + 1) vs in
            let* fs := tested g c j rest vs x stop body in settle fuel g fs vs
          | _ => settle fuel g ((c, S j) :: rest) vs
          end
        end
      | Some (Assign x e) =>
        let* v := value (environment g vs) e in
        settle fuel g ((b, S i) :: outer) (set_nth x v vs)
      | Some (Loop x start stop body) =>
        let* v := value (environment g vs) start in
        let vs := set_nth x v vs in
        let* fs := tested g b i outer vs x stop body in settle fuel g fs vs
      | Some (Branch e yes no) =>
        let* v := value (environment g vs) e in
        settle fuel g (((if v =? 0 then no else yes), O) :: (b, i) :: outer) vs
      | Some _ => Done (Position fs vs)
      end
    end
  end.

Definition advance (s : state) (a : nat) : outcome state :=
  let* g := agent_of a in
  let* q := got (nth_error (st_positions s) a) in
  match frames q with
  | [] => Undefined
  | (b, i) :: outer =>
    let* q := settle local_steps_max g ((b, S i) :: outer) (values q) in
    Done {| st_positions := set_nth a q (st_positions s); st_issued := st_issued s;
            st_barriers := st_barriers s; st_named := st_named s; st_cells := st_cells s;
            st_queues := st_queues s; st_free := st_free s; st_pools := st_pools s |}
  end.

(** *** Parts of a state *)

Definition with_issued l s := State (st_positions s) l (st_barriers s) (st_named s) (st_cells s)
  (st_queues s) (st_free s) (st_pools s).
Definition with_barriers l s := State (st_positions s) (st_issued s) l (st_named s) (st_cells s)
  (st_queues s) (st_free s) (st_pools s).
Definition with_named l s := State (st_positions s) (st_issued s) (st_barriers s) l (st_cells s)
  (st_queues s) (st_free s) (st_pools s).
Definition with_cells l s := State (st_positions s) (st_issued s) (st_barriers s) (st_named s) l
  (st_queues s) (st_free s) (st_pools s).
Definition with_queues l s := State (st_positions s) (st_issued s) (st_barriers s) (st_named s)
  (st_cells s) l (st_free s) (st_pools s).
Definition with_free l s := State (st_positions s) (st_issued s) (st_barriers s) (st_named s)
  (st_cells s) (st_queues s) l (st_pools s).
Definition with_pools l s := State (st_positions s) (st_issued s) (st_barriers s) (st_named s)
  (st_cells s) (st_queues s) (st_free s) l.

Definition flights (s : state) : list flight :=
  st_free s ++ flat_map (fun e => concat (gr_closed (snd e)) ++ gr_open (snd e)) (st_queues s).

Definition cell_at (s : state) (c : cell) : outcome content := got (find same_key c (st_cells s)).
Definition put_cell (s : state) (c : cell) (v : content) : state :=
  with_cells (put same_key c v (st_cells s)) s.
Definition put_barrier (s : state) (k : key) (v : mbarrier) : state :=
  with_barriers (put same_key k v (st_barriers s)) s.

(** *** The end of a CTA *)

Definition ended (s : state) (cta : Z) : bool :=
  let places := combine (pr_agents p) (st_positions s) in
  existsb (fun e => ag_cta (fst e) =? cta) places &&
  forallb (fun e => negb (ag_cta (fst e) =? cta) || is_empty (frames (snd e))) places.

Definition check_alive (s : state) (a : nat) (cta : Z) : outcome unit :=
  guard (negb (po_exit_allowed (pr_policies p)) && ended s cta) LeakAtExit [a].

Definition home_of (storage : nat) : option Z :=
  fold_left (fun found b =>
    if (bu_storage b =? storage)%nat && negb (same_space (bu_space b) Global)
    then Some (bu_cta b) else found) (pr_buffers p) None.

Definition barrier_cta (k : key) : Z :=
  match nth_error (pr_barriers p) (fst k) with Some b => ba_cta b | None => 0 end.

(** The first agent that commits to mbarrier [n] from another CTA: the CTA of the barrier waits for its
    last phase before it ends. *)
Fixpoint first_of {A} (f : A -> bool) (number : nat) (l : list A) : option nat :=
  match l with
  | [] => None
  | x :: l => if f x then Some number else first_of f (S number) l
  end.

Definition commits_again (o : operation) (rest : list operation) : bool :=
  match o with
  | QueueArrive _ q r _ =>
    existsb (fun o => match o with
                      | QueueArrive _ q' r' _ =>
                        (q' =? q)%nat && (barrier_cta (fst r', 0) =? barrier_cta (fst r, 0))
                      | _ => false
                      end) rest
  | _ => false
  end.

(** Where queues execute in order so do commits: of a plain sequence the last ones count. *)
Fixpoint last_commits (l : list operation) : list operation :=
  match l with
  | [] => []
  | o :: rest => if commits_again o rest then last_commits rest else o :: last_commits rest
  end.

Definition peer_commit (n : nat) : option nat :=
  let commits o :=
    match o with QueueArrive _ _ r _ => (fst r =? n)%nat | _ => false end in
  let counting g l :=
    if po_in_order (pr_policies p) && (ag_blocks g =? 1)%nat then last_commits l else l in
  let far g :=
    negb (ag_cta g =? barrier_cta (n, 0))
    && existsb (fun l => existsb commits (counting g l)) (firstn (ag_blocks g) (skipn (ag_entry g) (pr_blocks p))) in
  if po_exit_allowed (pr_policies p) then None else first_of far 0 (pr_agents p).

Definition unwaited (s : state) (e : key * mbarrier) : bool :=
  ended s (barrier_cta (fst e))
  && match mb_status (snd e) with Absent => false | _ => true end
  && negb (mb_observed (snd e) && (mb_pending (snd e) =? mb_expected (snd e))).

Definition check_exit (s : state) : outcome unit :=
  let uses f :=
    existsb (fun a => match home_of (fst (fa_cell a)) with
                      | Some cta => (fa_write a || fl_reading f) && ended s cta
                      | None => false
                      end) (fl_accesses f)
    || existsb (fun c => ended s (barrier_cta (fst c))) (fl_completes f) in
  if po_exit_allowed (pr_policies p) then Done tt
  else match List.find uses (flights s) with
       | Some f => Faulty LeakAtExit [fl_agent f]
       | None =>
         fold (fun _ e => match peer_commit (fst (fst e)) with
                          | Some a => guard (unwaited s e) LeakAtExit [a]
                          | None => Done tt
                          end) tt (st_barriers s)
       end.

(** *** Domains of the cached proxies *)

Definition blocks_of (g : agent) : list (list operation) :=
  firstn (ag_blocks g) (skipn (ag_entry g) (pr_blocks p)).

Definition effects_of (o : operation) : list effect :=
  match o with Access l => l | Asynchronous _ l _ _ _ => l | _ => [] end.

(* Storage, proxy and CTA of each way by which the storage is reached. *)
Definition ways (pick : proxy -> bool) : list (nat * (Z * Z)) :=
  flat_map (fun g => flat_map (flat_map (fun o => flat_map (fun e =>
    match nth_error (pr_buffers p) (ef_buffer e) with
    | Some b =>
      if pick (ef_proxy e) then
        (bu_storage b, (code (ef_proxy e), ag_cta g))
        :: if is_async (ef_proxy e) && negb (same_space (bu_space b) Global)
           then [(bu_storage b, (code (ef_proxy e), bu_cta b))] else []
      else []
    | None => []
    end) (effects_of o))) (blocks_of g)) (pr_agents p).

Definition domains (pick : proxy -> bool) (storage : nat) : list (Z * Z) :=
  map snd (filter (fun w => (fst w =? storage)%nat) (ways pick)).
Definition cached (storage : nat) : list (Z * Z) := domains is_cached storage.

Definition is_outside (m : marks) (ds : list (Z * Z)) (write : Z) : marks :=
  Marks (ma_inside m) (fold_right (fun '(x, cta) l => add_mark (x, cta, write) l) (ma_outside m) ds)
    (ma_released m).

Definition outside (h : content) (c : cell) (write : Z) : content :=
  Content (co_tile h) (co_writers h) (co_readers h) (co_authors h) (co_released h)
    (is_outside (co_marks h) (cached (fst c)) write).

Definition cta_of_mark (m : mark) : Z := cta_of (Z.to_nat (snd (fst m))).

(** What is outside enters the domain, what is inside leaves; and the agents of that which wrote. *)
Definition fenced_marks (m : marks) (x cta : Z) (ds : list (Z * Z)) : marks * list Z :=
  let leaves i := (fst (fst i) =? x) && (cta_of_mark i =? cta) in
  let leaving := filter leaves (ma_inside m) in
  let others := filter (fun d => negb ((fst d =? x) && (snd d =? cta))) ds in
  let m := Marks (filter (fun i => negb (leaves i)) (ma_inside m))
             (filter (fun o => negb ((fst (fst o) =? x) && (snd (fst o) =? cta))) (ma_outside m))
             (ma_released m) in
  (fold_left (fun m i => is_outside m others (snd i)) leaving m,
   fold_right (fun i l => if snd i =? 1 then add (snd (fst i)) l else l) [] leaving).

Definition lacks_fence (m : marks) (x cta : Z) (write : bool) : bool :=
  existsb (fun i => (write || (snd i =? 1))
                    && negb ((fst (fst i) =? x) && (cta_of_mark i =? cta))) (ma_inside m)
  || has_mark (x, cta, 1) (ma_outside m) || (write && has_mark (x, cta, 0) (ma_outside m)).

(** *** Memory *)

Definition cells_of (b : buffer) (stage : Z) (part : option Z) : list cell :=
  let parts := match part with Some q => [q] | None => below (bu_parts b) end in
  flat_map (fun q => map (fun u => (bu_storage b,
    bu_offset b + (stage * bu_parts b + q) * bu_units b + u)) (below (bu_units b))) parts.

Definition optional (env : nat -> Z) (e : option expression) : outcome (option Z) :=
  match e with None => Done None | Some e => let* v := value env e in Done (Some v) end.

Definition resolve (s : state) (a : nat) (env : nat -> Z) (e : effect) : outcome (list cell * Z) :=
  let* b := got (nth_error (pr_buffers p) (ef_buffer e)) in
  let* stage := value env (ef_stage e) in
  let* part := optional env (ef_part e) in
  let q := match part with Some q => q | None => 0 end in
  let* _ := guard (negb ((0 <=? stage) && (stage <? bu_stages b) && (0 <=? q) && (q <? bu_parts b)))
              IndexOutOfRange [a] in
  let* _ := if negb (same_space (bu_space b) Global) && negb (bu_cta b =? cta_of a)
            then check_alive s a (bu_cta b) else Done tt in
  let* tile := optional env (ef_tile e) in
  Done (cells_of b stage part, match tile with Some t => t | None => any_tile end).

(** The pipelined queue that both the flight and what agent [a] issues to [q] are in. *)
Definition pipe_of (f : flight) (a : nat) (q : option nat) : option queue :=
  match q with
  | Some n => match nth_error (pr_queues p) n with
              | Some d => if qu_pipelined d && (fl_agent f =? a)%nat && same_name (fl_queue f) q
                          then Some d else None
              | None => None
              end
  | None => None
  end.

(** Products keep their order where they write one accumulator; tcgen05 (no groups) also a copy
    before what a product does with it, and by the policy whatever one agent issues. *)
Definition pipe_keeps (d : option queue) (w : flight_access) (write : bool)
    (extent : option (cell * Z)) : bool :=
  match d with
  | None => false
  | Some d =>
    let tensor := negb (qu_grouped d) in
    let accumulates e := match e with Some _ => true | None => false end in
    (write && accumulates extent && accumulates (fa_extent w) && fa_write w
       && same_extent (fa_extent w) extent)
    || (tensor && fa_write w && negb (accumulates (fa_extent w)) && (negb write || accumulates extent))
    || (tensor && po_in_order (pr_policies p) && (fa_write w || write))
  end.

Definition check_read (s : state) (a : nat) (c : cell) (tile : Z) (q : option nat) : outcome unit :=
  let* held := cell_at s c in
  let one f held w :=
    if same_key (fa_cell w) c && fa_write w then
      if pipe_keeps (pipe_of f a q) w false None then Done (fa_tile w)
      else Faulty ReadBeforeArrival [a; fl_agent f]
    else Done held in
  let* held := fold (fun held f => fold (one f) held (fl_accesses f)) (co_tile held) (flights s) in
  guard (negb ((tile =? any_tile) || (tile =? held))) StaleRead [a].

Definition kind_of (a : nat) (e : effect) : option mark :=
  if ef_reduction e =? 0 then None
  else Some (ef_reduction e, code (ef_proxy e), if ef_near e then cta_of a else -1).

(** Reductions of one kind need no order; those that wrap around at bounds (7, 8) do. *)
Definition commute (x y : option mark) : bool :=
  match x, y with
  | Some x, Some y => same_mark x y && (fst (fst x) <? 7)
  | _, _ => false
  end.

(** A reduction that names a tile adds to that tile. *)
Definition check_sum (s : state) (a : nat) (c : cell) (tile : Z) (kind : option mark) : outcome unit :=
  match kind with
  | None => Done tt
  | Some _ =>
    let* h := cell_at s c in
    guard (negb ((tile =? any_tile) || (tile =? co_tile h))) StaleRead [a]
  end.

Definition kept_tile (h : content) (tile : Z) (kind : option mark) : Z :=
  match kind with | Some _ => co_tile h | None => tile end.

Definition check_write (s : state) (a : nat) (c : cell) (q : option nat) (extent : option (cell * Z))
    (kind : option mark) : outcome unit :=
  let meets f :=
    existsb (fun w =>
      negb (pipe_keeps (pipe_of f a q) w true extent)
      && negb (commute kind (fa_kind w))
      && same_key (fa_cell w) c && (fa_write w || fl_reading f)) (fl_accesses f) in
  match List.find meets (flights s) with
  | Some f => Faulty OverwriteInFlight [a; fl_agent f]
  | None => Done tt
  end.

Definition note_write (s : state) (c : cell) (tile who : Z) : outcome state :=
  let* h := cell_at s c in
  Done (put_cell s c (Content tile (add who (co_writers h)) (co_readers h)
                        (add who (co_authors h)) false (co_marks (outside h c 1)))).

Definition note_read (s : state) (c : cell) (who : Z) : outcome state :=
  let* h := cell_at s c in
  Done (put_cell s c (Content (co_tile h) (co_writers h) (add who (co_readers h)) (co_authors h)
                        (co_released h) (co_marks (outside h c 0)))).

Definition note_cached (s : state) (c : cell) (tile : Z) (a : nat) (x : Z) (write : bool)
    : outcome state :=
  let* h := cell_at s c in
  let m := co_marks h in
  let m := Marks (add_mark (x, Z.of_nat a, if write then 1 else 0) (ma_inside m)) (ma_outside m)
             (ma_released m) in
  Done (put_cell s c (Content (if write then tile else co_tile h) (co_writers h) (co_readers h)
                        (co_authors h) (co_released h) m)).

(** Where one of two proxies is a cached one: a fence of each that is not generic. *)
Definition check_cached (s : state) (a : nat) (b : nat) (c : cell) (x : proxy) (write : bool)
    : outcome unit :=
  if is_empty (cached (fst c)) then Done tt
  else
    let* h := cell_at s c in
    let* b := got (nth_error (pr_buffers p) b) in
    let lacks cta := lacks_fence (co_marks h) (code x) cta write in
    let second := if is_async x && negb (same_space (bu_space b) Global) then bu_cta b else cta_of a in
    guard (lacks (cta_of a) && lacks second) MissingCachedFence [a].

Definition access (s : state) (a : nat) (env : nat -> Z) (effects : list effect) : outcome state :=
  let* resolved := each (fun e => let* r := resolve s a env e in Done (e, r)) effects in
  let* _ := each (fun '(e, (cells, tile)) => each (fun c =>
      let x := if is_cached (ef_proxy e) then ef_proxy e else Generic in
      let* _ := check_cached s a (ef_buffer e) c x (ef_write e) in
      if ef_write e then let* _ := check_write s a c None None (kind_of a e) in
                         check_sum s a c tile (kind_of a e)
      else check_read s a c tile None) cells) resolved in
  fold (fun s '(e, (cells, tile)) => fold (fun s c =>
      if is_cached (ef_proxy e) then note_cached s c tile a (code (ef_proxy e)) (ef_write e)
      else if ef_write e then
        let* h := cell_at s c in note_write s c (kept_tile h tile (kind_of a e)) (Z.of_nat a)
      else note_read s c (Z.of_nat a)) s cells)
    s resolved.

Definition check_proxy (s : state) (a : nat) (c : cell) (x : proxy) (write : bool) : outcome unit :=
  let* h := cell_at s c in
  let mine := filter (fun m => snd (fst m) =? Z.of_nat a) (ma_released (co_marks h)) in
  match x with
  | Async =>
    let* _ := guard (negb (is_empty (co_writers h)) || existsb (fun m => snd m =? 1) mine)
                MissingFence [a] in
    guard (write && negb (is_empty (co_readers h) && is_empty mine) && po_war_fence (pr_policies p))
      MissingFenceWar [a]
  | Tensormap => guard (negb (is_empty (co_authors h)) || co_released h) MissingTensormapFence [a]
  | _ => Done tt
  end.

(** *** mbarriers *)

Definition declared (s : state) (a : nat) (env : nat -> Z) (r : reference) : outcome key :=
  let* k := key_of env r in
  match find same_key k (st_barriers s) with
  | Some _ => Done k
  | None => Faulty IndexOutOfRange [a]
  end.

Definition usable (s : state) (a : nat) (k : key) (by_engine : bool) : outcome mbarrier :=
  let* b := got (find same_key k (st_barriers s)) in
  let far := negb (barrier_cta k =? cta_of a) || by_engine in
  let* _ := guard (is_absent (mb_status b)) BarrierUninitialised [a] in
  let* _ := guard (far && is_unpublished (mb_status b)) UnpublishedInit [a] in
  let* _ := if far then check_alive s a (barrier_cta k) else Done tt in
  Done b.

(** Stores the barrier; its phase is complete when nothing is outstanding. *)
Definition store (s : state) (a : nat) (k : key) (b : mbarrier) : outcome state :=
  let* _ := guard (transaction_max <? Z.abs (mb_transaction b)) TransactionMismatch [a] in
  let over := mb_pending b =? 0 in
  let* _ := guard (over && (mb_transaction b <? 0)) TransactionMismatch [a] in
  Done (put_barrier s k
    (if over && (mb_transaction b =? 0)
     then Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_expected b) 0 (mb_phase b + 1) []
            (po_run_ahead (pr_policies p)
             && match peer_commit (fst k) with Some _ => false | None => true end) (mb_tokens b)
     else b)).

Definition count_down (s : state) (a : nat) (k : key) (b : mbarrier) (count bytes : Z) : outcome state :=
  let fits := (0 <=? count) && (count <=? mb_pending b) && (0 <=? mb_expected b) in
  let* _ := guard (negb fits) OverArrival [a] in
  let* _ := guard (negb (count =? 0) && negb (mb_observed b) && negb (po_run_ahead (pr_policies p)))
              UnobservedPhase [a] in
  store s a k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b - count)
    (mb_transaction b + bytes) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).

Definition with_observed (b : mbarrier) : mbarrier :=
  Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b) (mb_transaction b) (mb_phase b)
    (mb_tokens b) true (mb_armed b).

Definition arrive (s : state) (a : nat) (env : nat -> Z) (r : reference) (count bytes : expression)
    (drop token : bool) : outcome state :=
  let* k := declared s a env r in
  let* b := usable s a k false in
  let* n := value env count in
  let own l := if token then add (Z.of_nat a) l else l in
  let* t := value env bytes in
  count_down s a k
    (Mbarrier (mb_status b) (mb_owner b) (if drop then mb_expected b - n else mb_expected b)
       (mb_pending b) (mb_transaction b) (mb_phase b) (own (mb_tokens b)) (mb_observed b)
       (own (mb_armed b))) n t.

Definition expect (s : state) (a : nat) (env : nat -> Z) (r : reference) (bytes : expression)
    : outcome state :=
  let* k := declared s a env r in
  let* b := usable s a k false in
  let* _ := guard (mb_pending b =? 0) TransactionMismatch [a] in
  let* n := value env bytes in
  store s a k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
    (mb_transaction b + n) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)).

Definition wait (s : state) (a : nat) (env : nat -> Z) (r : reference) (phase : option expression)
    : outcome state :=
  let* k := declared s a env r in
  let* b := usable s a k false in
  let* meant := optional env phase in
  let* _ := guard (match meant with Some m => negb (mb_phase b =? m + 1) | None => false end)
              LappedWait [a] in
  Done (put_barrier s k (with_observed b)).

Definition token_wait (s : state) (a : nat) (env : nat -> Z) (r : reference) : outcome state :=
  let* k := declared s a env r in
  let* b := usable s a k false in
  let* _ := guard (negb (inside (Z.of_nat a) (mb_armed b))) NamedBarrierMisuse [a] in
  Done (put_barrier s k (with_observed b)).

Definition init (s : state) (a : nat) (env : nat -> Z) (r : reference) (count : expression)
    : outcome state :=
  let* k := declared s a env r in
  let* b := got (find same_key k (st_barriers s)) in
  let* _ := guard (negb (is_absent (mb_status b))) BarrierLifecycle [a] in
  let* n := value env count in
  let status := if po_init_assumed (pr_policies p) then Usable else Unpublished in
  Done (put_barrier s k (Mbarrier status (Z.of_nat a) n n 0 0 [] true [])).

Definition numbered {A} (l : list A) : list (nat * A) := combine (seq 0 (length l)) l.

Definition env_of (s : state) (a : nat) : outcome (nat -> Z) :=
  let* g := agent_of a in
  let* q := got (nth_error (st_positions s) a) in
  Done (environment g (values q)).

Definition waited_for (s : state) (k : key) : outcome bool :=
  fold (fun found '(a, q) =>
    match op_of q with
    | Some (Wait r _ _) | Some (TokenWait r) =>
      let* env := env_of s a in
      let* other := key_of env r in
      Done (found || same_key other k)
    | _ => Done found
    end) false (numbered (st_positions s)).

Definition invalidate (s : state) (a : nat) (env : nat -> Z) (r : reference) : outcome state :=
  let* k := declared s a env r in
  let* b := got (find same_key k (st_barriers s)) in
  let* _ := guard (is_absent (mb_status b)) BarrierUninitialised [a] in
  let used := existsb (fun f => existsb (fun c => same_key (fst c) k) (fl_completes f)) (flights s) in
  let* waited := waited_for s k in
  let* _ := guard (used || negb (is_empty (mb_tokens b)) || waited) BarrierLifecycle [a] in
  Done (put_barrier s k (Mbarrier Absent (mb_owner b) (mb_expected b) (mb_pending b)
    (mb_transaction b) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b))).

(** An agent that waits for a phase two behind has slept through it. *)
Definition check_lapped (s : state) : outcome unit :=
  fold (fun _ '(a, q) =>
    match op_of q with
    | Some (Wait r _ (Some phase)) =>
      let* env := env_of s a in
      let* k := key_of env r in
      let* meant := value env phase in
      match find same_key k (st_barriers s) with
      | Some b => guard (negb (is_absent (mb_status b)) && (meant + 1 <? mb_phase b)) LappedWait [a]
      | None => Done tt
      end
    | _ => Done tt
    end) tt (numbered (st_positions s)).

(** *** Named barriers *)

Definition awaited (n : nat) : bool :=
  existsb (existsb (fun o => match o with BarrierWait r => (fst r =? n)%nat | _ => false end))
    (pr_blocks p).

Definition declared_named (s : state) (a : nat) (env : nat -> Z) (r : reference)
    : outcome (key * named) :=
  let* k := key_of env r in
  match find same_key k (st_named s) with
  | Some n => Done (k, n)
  | None => Faulty IndexOutOfRange [a]
  end.

(** With the state comes whether the agent goes on. *)
Definition meet (s : state) (a : nat) (env : nat -> Z) (r : reference) (threads : expression)
    (sync : bool) : outcome (state * bool) :=
  let* g := agent_of a in
  let me := Z.of_nat a in
  let* all := value env threads in
  let* (k, n) := declared_named s a env r in
  let* _ := guard (inside me (na_arrived n) || inside me (na_waiting n)) NamedBarrierMisuse [a] in
  let arrived := na_arrived_threads n + ag_threads g in
  let fits := ((na_expected_threads n =? 0) || (na_expected_threads n =? all)) && (arrived <=? all) in
  let* _ := guard (negb fits) NamedBarrierMisuse [a] in
  let rest := without [me] (na_armed n) in
  let armed := if negb sync && awaited (fst k) then add me rest else rest in
  if arrived <? all then
    let n := Named arrived all (if sync then na_arrived n else add me (na_arrived n))
               (if sync then add me (na_waiting n) else na_waiting n) armed in
    Done (with_named (put same_key k n (st_named s)) s, negb sync)
  else
    let s := with_named (put same_key k (Named 0 0 [] [] armed) (st_named s)) s in
    let* s := fold (fun s other => advance s (Z.to_nat other)) s (na_waiting n) in
    Done (s, true).

Definition named_wait (s : state) (a : nat) (env : nat -> Z) (r : reference) : outcome state :=
  let* (k, n) := declared_named s a env r in
  let me := Z.of_nat a in
  let* _ := guard (negb (inside me (na_armed n))) NamedBarrierMisuse [a] in
  let n := Named (na_arrived_threads n) (na_expected_threads n) (na_arrived n) (na_waiting n)
             (without [me] (na_armed n)) in
  Done (with_named (put same_key k n (st_named s)) s).

(** *** Queues *)

Definition queue_decl (q : nat) : outcome queue := got (nth_error (pr_queues p) q).

Definition split_reads (q : nat) : bool :=
  existsb (existsb (fun o => match o with QueueWait n _ true => (n =? q)%nat | _ => false end))
    (pr_blocks p).

Definition enqueue (s : state) (q : option nat) (f : flight) : outcome state :=
  let* n := got (nth_error (st_issued s) (fl_agent f)) in
  let s := with_issued (set_nth (fl_agent f) (n + 1) (st_issued s)) s in
  match q with
  | None => Done (with_free (st_free s ++ [f]) s)
  | Some q =>
    let* d := queue_decl q in
    let* g := got (find same_pair (fl_agent f, q) (st_queues s)) in
    let g := if qu_grouped d then Groups (gr_closed g) (gr_open g ++ [f])
             else Groups (gr_closed g ++ [[f]]) (gr_open g) in
    Done (with_queues (put same_pair (fl_agent f, q) g (st_queues s)) s)
  end.

Definition commit (s : state) (a q : nat) : outcome state :=
  let* g := got (find same_pair (a, q) (st_queues s)) in
  if is_empty (gr_open g) && is_empty (gr_closed g) then Done s
  else Done (with_queues (put same_pair (a, q) (Groups (gr_closed g ++ [gr_open g]) []) (st_queues s)) s).

Fixpoint from_first_busy (l : list bool) : Z :=
  match l with [] => 0 | true :: l => 1 + Z.of_nat (length l) | false :: l => from_first_busy l end.

Definition outstanding (d : queue) (g : groups) (reads : bool) : Z :=
  let busy := map (existsb (fun f => negb reads || fl_reading f)) (gr_closed g) in
  if qu_ordered d then from_first_busy busy else Z.of_nat (length (filter id busy)).

Definition is_over (f : flight) : bool :=
  negb (fl_reading f) && is_empty (fl_completes f)
  && forallb (fun a => negb (fa_write a) && negb (is_generic (fa_proxy a))) (fl_accesses f).

Fixpoint kept (ordered waiting : bool) (l : list flight) : list flight * bool :=
  match l with
  | [] => ([], waiting)
  | f :: l =>
    if waiting || negb (is_over f)
    then let (l, w) := kept ordered (waiting || ordered) l in (f :: l, w)
    else kept ordered waiting l
  end.

Fixpoint kept_groups (ordered waiting : bool) (l : list (list flight)) : list (list flight) :=
  match l with
  | [] => []
  | g :: l => let (g, w) := kept ordered waiting g in g :: kept_groups ordered w l
  end.

Fixpoint drop_empty (l : list (list flight)) : list (list flight) :=
  match l with [] :: l => drop_empty l | _ => l end.

Definition retired (d : queue) (closed : list (list flight)) (opened : list flight) : groups :=
  let all := kept_groups (qu_ordered d) false (closed ++ [opened]) in
  let closed := removelast all in
  Groups (if qu_ordered d then drop_empty closed else filter (fun g => negb (is_empty g)) closed)
    (last all []).

(* All of an open group up to its last marker. *)
Fixpoint released (l : list flight) : list flight :=
  match l with
  | [] => []
  | f :: l => if existsb fl_marker (f :: l) then f :: released l else []
  end.

(** *** Asynchronous operations *)

Definition issue (s : state) (a : nat) (env : nat -> Z) (site : nat) (effects : list effect)
    (q : option nat) (completes : list (reference * expression)) (chunks : Z) : outcome state :=
  let* parts := each (fun e =>
    let* (cells, tile) := resolve s a env e in
    let extent := if ef_accumulates e
                  then Some (hd (O, 0) cells, Z.of_nat (length cells)) else None in
    Done (map (fun c => FlightAccess c (ef_write e) tile (ef_proxy e) extent (kind_of a e)) cells))
    effects in
  let accesses := concat parts in
  let* _ := each (fun '(e, w) =>
    let* _ := check_cached s a (ef_buffer e) (fa_cell w) (fa_proxy w) (fa_write w) in
    let* _ := check_proxy s a (fa_cell w) (fa_proxy w) (fa_write w) in
    if fa_write w then
      let* _ := check_write s a (fa_cell w) q (fa_extent w) (fa_kind w) in
      check_sum s a (fa_cell w) (fa_tile w) (fa_kind w)
    else check_read s a (fa_cell w) (fa_tile w) q)
    (flat_map (fun '(e, l) => map (pair e) l) (combine effects parts)) in
  let* done := each (fun '(r, bytes) =>
    let* k := declared s a env r in let* n := value env bytes in Done (k, n)) completes in
  let* ordinal := got (nth_error (st_issued s) a) in
  enqueue s q (Flight a ordinal site accesses done true chunks chunks false q).

Definition queue_arrive (s : state) (a : nat) (env : nat -> Z) (site q : nat) (r : reference)
    (count : expression) : outcome state :=
  let* k := declared s a env r in
  let* n := value env count in
  let* ordinal := got (nth_error (st_issued s) a) in
  enqueue s (Some q) (Flight a ordinal site [] [(k, n)] false 1 1 true (Some q)).

Definition with_reading (f : flight) (reading : bool) (chunks : Z) : flight :=
  Flight (fl_agent f) (fl_ordinal f) (fl_site f) (fl_accesses f) (fl_completes f) reading chunks
    (fl_total f) (fl_marker f) (fl_queue f).

Definition have_read (s : state) (f : flight) : outcome state :=
  fold (fun s w =>
    if fa_write w || is_generic (fa_proxy w) then Done s
    else let* h := cell_at s (fa_cell w) in
         Done (put_cell s (fa_cell w) (outside h (fa_cell w) 0))) s (fl_accesses f).

Definition take_effect (s : state) (f : flight) : outcome state :=
  let* s := if fl_reading f then have_read s f else Done s in
  fold (fun s w =>
    match fa_write w, is_generic (fa_proxy w) with
    | true, true =>
      let* h := cell_at s (fa_cell w) in
      note_write s (fa_cell w) (kept_tile h (fa_tile w) (fa_kind w)) engine
    | true, false =>
      let* h := cell_at s (fa_cell w) in
      Done (put_cell s (fa_cell w)
        (Content (kept_tile h (fa_tile w) (fa_kind w)) (co_writers h) (co_readers h) (add engine (co_authors h)) false
           (co_marks (outside h (fa_cell w) 1))))
    | false, true => note_read s (fa_cell w) engine
    | false, false => Done s
    end) s (fl_accesses f).

(** One step of an engine: the state, and what is left of the flight. *)
Definition finish (s : state) (f : flight) (reads : bool) : outcome (state * list flight) :=
  if reads then let* s := have_read s f in Done (s, [with_reading f false (fl_chunks f)])
  else
    let final := fl_chunks f =? 1 in
    let* s := if final then take_effect s f else Done s in
    let* s := fold (fun s '(k, amount) =>
      let* b := usable s (fl_agent f) k true in
      if fl_marker f then count_down s (fl_agent f) k b amount 0
      else
        let share := amount / fl_total f in
        let part := if final then amount - share * (fl_total f - 1) else share in
        store s (fl_agent f) k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
          (mb_transaction b - part) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)))
      s (fl_completes f) in
    Done (s, if final then [] else [with_reading f (fl_reading f) (fl_chunks f - 1)]).

Definition is_mark (a : nat) (ordinal : Z) (f : flight) : bool :=
  (fl_agent f =? a)%nat && (fl_ordinal f =? ordinal).

Definition replaced (a : nat) (ordinal : Z) (rest : list flight) (l : list flight) : list flight :=
  flat_map (fun f => if is_mark a ordinal f then rest else [f]) l.

Definition engine_step (s : state) (a : nat) (ordinal : Z) (reads : bool) : outcome state :=
  match List.find (is_mark a ordinal) (st_free s) with
  | Some f =>
    let* (s, rest) := finish s f reads in
    Done (with_free (replaced a ordinal rest (st_free s)) s)
  | None =>
    let holds e := existsb (is_mark a ordinal) (concat (gr_closed (snd e)) ++ gr_open (snd e)) in
    let* ((owner, q), g) := got (List.find holds (st_queues s)) in
    let* f := got (List.find (is_mark a ordinal) (concat (gr_closed g) ++ gr_open g)) in
    let* d := queue_decl q in
    let* (s, rest) := finish s f reads in
    let g := retired d (map (replaced a ordinal rest) (gr_closed g))
               (replaced a ordinal rest (gr_open g)) in
    Done (with_queues (put same_pair (owner, q) g (st_queues s)) s)
  end.

(** *** Fences *)

(* Agents to which a one-way release hands its marks: those that issue asynchronous accesses. *)
Definition issuers : list Z :=
  flat_map (fun '(a, g) =>
    if existsb (existsb (fun o => match o with
                                  | Asynchronous _ l _ _ _ => existsb (fun e => is_async (ef_proxy e)) l
                                  | _ => false
                                  end)) (blocks_of g)
    then [Z.of_nat a] else []) (numbered (pr_agents p)).

Definition owed (authors : list Z) (write : Z) (l : list mark) : list mark :=
  fold_right (fun w l => fold_right (fun i l => add_mark (w, i, write) l) l issuers) l authors.

Definition fenced (kind : fence_kind) (a : nat) (gone : list Z) (c : cell) (h : content) : content :=
  let among l := filter (fun x => inside x gone) l in
  let m := co_marks h in
  let with_marks w r m := Content (co_tile h) w r (co_authors h) (co_released h) m in
  match kind with
  | FenceAsync =>
    let m := Marks (ma_inside m) (ma_outside m)
               (filter (fun r => negb (inside (fst (fst r)) gone)) (ma_released m)) in
    with_marks (without gone (co_writers h)) (without gone (co_readers h))
      (fst (fenced_marks m (code Async) (cta_of a) []))
  | FenceRelease =>
    with_marks (without gone (co_writers h)) (without gone (co_readers h))
      (Marks (ma_inside m) (ma_outside m)
         (owed (among (co_writers h)) 1 (owed (among (co_readers h)) 0 (ma_released m))))
  | FenceAcquire =>
    with_marks (co_writers h) (co_readers h)
      (Marks (ma_inside m) (ma_outside m)
         (filter (fun r => negb (snd (fst r) =? Z.of_nat a)) (ma_released m)))
  | FenceMapRelease =>
    if is_empty (co_authors h) then h
    else let authors := without gone (co_authors h) in
         Content (co_tile h) (co_writers h) (co_readers h) authors (is_empty authors) m
  | FenceMapAcquire =>
    Content (co_tile h) (co_writers h) (co_readers h) (co_authors h) false m
  | FenceInit => h
  | FenceCached x =>
    let ds := cached (fst c) ++ (if is_empty (cached (fst c)) then [] else domains is_async (fst c)) in
    let (m, wrote) := fenced_marks m x (cta_of a) ds in
    if is_empty wrote then with_marks (co_writers h) (co_readers h) m
    else Content (co_tile h) (co_writers h) (co_readers h) (union (co_authors h) wrote) false m
  end.

Definition covers (a : nat) (kind : fence_kind) (spaces : list space) (b : buffer) : bool :=
  match kind with
  | FenceRelease => same_space (bu_space b) Shared && (bu_cta b =? cta_of a)
  | FenceAcquire => same_space (bu_space b) Shared
  | _ => is_empty spaces || existsb (same_space (bu_space b)) spaces
  end.

Definition fence (s : state) (a : nat) (kind : fence_kind) (spaces : list space) : outcome state :=
  match kind with
  | FenceInit =>
    Done (with_barriers (map (fun '(k, b) =>
      (k, if is_unpublished (mb_status b) && (mb_owner b =? Z.of_nat a)
          then Mbarrier Usable (mb_owner b) (mb_expected b) (mb_pending b) (mb_transaction b)
                 (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)
          else b)) (st_barriers s)) s)
  | _ =>
    fold (fun s b =>
      if covers a kind spaces b then
        let near := same_space (bu_space b) Global || (bu_cta b =? cta_of a) in
        fold (fun s c =>
          let* h := cell_at s c in
          let released := fold_right (fun m => add (fst (fst m))) [] (ma_released (co_marks h)) in
          let all := union (co_writers h) (union (co_readers h) (union (co_authors h) released)) in
          let gone := add engine [Z.of_nat a] in
          let gone := if po_path (pr_policies p) && near then union gone all else gone in
          Done (put_cell s c (fenced kind a gone c h))) s
          (flat_map (fun stage => cells_of b stage None) (below (bu_stages b)))
      else Done s) s (pr_buffers p)
  end.

(** *** Steps *)

Inductive step_ := AgentStep (a : nat) | FinishStep (a : nat) (ordinal : Z) | ReadsStep (a : nat) (ordinal : Z).

Definition pool_units (a : nat) (env : nat -> Z) (amount : expression) : outcome Z :=
  let* n := value env amount in
  let* _ := guard (n <? 0) PoolMisuse [a] in Done n.

Definition enabled (s : state) (a : nat) : outcome bool :=
  let* q := got (nth_error (st_positions s) a) in
  let* env := env_of s a in
  match op_of q with
  | None => Done false
  | Some (Wait r parity _) =>
    let* k := key_of env r in
    match find same_key k (st_barriers s) with
    | None => Done true
    | Some b =>
      if is_absent (mb_status b) then Done true
      else let* v := value env parity in Done (negb (mb_phase b mod 2 =? v mod 2))
    end
  | Some (TokenWait r) =>
    let* k := key_of env r in
    Done (match find same_key k (st_barriers s) with
          | None => true
          | Some b => is_absent (mb_status b) || negb (inside (Z.of_nat a) (mb_tokens b))
          end)
  | Some (QueueWait q pending reads) =>
    let* d := queue_decl q in
    let* g := got (find same_pair (a, q) (st_queues s)) in
    let* n := value env pending in
    Done (outstanding d g reads <=? n)
  | Some (BarrierWait r) =>
    let* k := key_of env r in
    Done (match find same_key k (st_named s) with
          | None => true
          | Some n => negb (inside (Z.of_nat a) (na_arrived n))
          end)
  | Some (BarrierSync _ _) =>
    Done (negb (existsb (fun e => inside (Z.of_nat a) (na_waiting (snd e))) (st_named s)))
  | Some (PoolTake pool amount) =>
    let* free := got (nth_error (st_pools s) pool) in
    let* n := value env amount in Done (n <=? free)
  | Some _ => Done true
  end.

Definition engine_step_of (f : flight) (split : bool) : step_ :=
  if split && fl_reading f then ReadsStep (fl_agent f) (fl_ordinal f)
  else FinishStep (fl_agent f) (fl_ordinal f).

Definition engine_steps (s : state) : outcome (list step_) :=
  let* found := each (fun '((_, q), g) =>
    let* d := queue_decl q in
    let fs := concat (gr_closed g) ++ released (gr_open g) in
    let split := split_reads q in
    let first := if qu_ordered d then firstn 1 fs else fs in
    let reading := if split then firstn 1 (filter fl_reading fs) else [] in
    Done (map (fun f => engine_step_of f split) (first ++ reading))) (st_queues s) in
  Done (map (fun f => engine_step_of f false) (st_free s) ++ concat found).

(* Agents by number, then ends, then ends of reads; each once. *)
Definition rank (x : step_) : Z * Z * Z :=
  match x with
  | AgentStep a => (0, Z.of_nat a, -1)
  | FinishStep a n => (1, Z.of_nat a, n)
  | ReadsStep a n => (2, Z.of_nat a, n)
  end.

Definition order (x y : step_) : comparison :=
  let '(a, b, c) := rank x in
  let '(d, e, f) := rank y in
  match a ?= d with Datatypes.Eq => match b ?= e with Datatypes.Eq => c ?= f | o => o end | o => o end.

Fixpoint insert (x : step_) (l : list step_) : list step_ :=
  match l with
  | [] => [x]
  | y :: l => match order x y with
    | Datatypes.Lt => x :: y :: l
    | Datatypes.Eq => y :: l
    | Datatypes.Gt => y :: insert x l
    end
  end.

Definition steps (s : state) : outcome (list step_) :=
  let* own := each (fun '(a, _) => let* e := enabled s a in Done (if e : bool then [AgentStep a] else []))
                (numbered (st_positions s)) in
  let* others := engine_steps s in
  Done (fold_right insert [] (concat own ++ others)).

Definition execute (s : state) (a : nat) : outcome state :=
  let* q := got (nth_error (st_positions s) a) in
  let* env := env_of s a in
  let* o := got (op_of q) in
  let goes_on x := let* s := x in advance s a in
  match o with
  | Access effects => goes_on (access s a env effects)
  | Asynchronous site effects q completes chunks =>
    goes_on (issue s a env site effects q completes chunks)
  | QueueArrive site q r count => goes_on (queue_arrive s a env site q r count)
  | Commit q => goes_on (commit s a q)
  | QueueWait _ _ _ => advance s a
  | Init r count => goes_on (init s a env r count)
  | Invalidate r => goes_on (invalidate s a env r)
  | Arrive r count bytes drop token => goes_on (arrive s a env r count bytes drop token)
  | ExpectTransaction r bytes => goes_on (expect s a env r bytes)
  | Wait r _ phase => goes_on (wait s a env r phase)
  | TokenWait r => goes_on (token_wait s a env r)
  | BarrierSync r threads =>
    let* (s, on) := meet s a env r threads true in if on then advance s a else Done s
  | BarrierArrive r threads =>
    let* (s, on) := meet s a env r threads false in if on then advance s a else Done s
  | BarrierWait r => goes_on (named_wait s a env r)
  | Fence kind spaces => goes_on (fence s a kind spaces)
  | PoolTake pool amount =>
    let* n := pool_units a env amount in
    let* free := got (nth_error (st_pools s) pool) in
    goes_on (Done (with_pools (set_nth pool (free - n) (st_pools s)) s))
  | PoolGive pool amount =>
    let* n := pool_units a env amount in
    let* free := got (nth_error (st_pools s) pool) in
    goes_on (Done (with_pools (set_nth pool (free + n) (st_pools s)) s))
  | Assign _ _ | Loop _ _ _ _ | Branch _ _ _ => Undefined
  end.

Fixpoint by_age (f : flight) (l : list flight) : list flight :=
  match l with
  | [] => [f]
  | g :: l =>
    let before := (fl_agent f <? fl_agent g)%nat
                  || ((fl_agent f =? fl_agent g)%nat && (fl_ordinal f <=? fl_ordinal g)) in
    if before then f :: g :: l else g :: by_age f l
  end.

Definition apply_step (s : state) (x : step_) : outcome state :=
  let* s := match x with
            | AgentStep a => execute s a
            | FinishStep a n => engine_step s a n false
            | ReadsStep a n => engine_step s a n true
            end in
  let* _ := check_exit s in
  let* _ := check_lapped s in
  Done (with_free (fold_right by_age [] (st_free s)) s).

(** *** Faults of a state *)

Definition use : Type := bool * option mark.   (* of a cell: whether written, how added to *)

Definition touched (s : state) (a : nat) (effects : list effect) : outcome (list (cell * use)) :=
  let* env := env_of s a in
  let* found := each (fun e =>
    match resolve s a env e with
    | Done (cells, _) => Done (map (fun c => (c, (ef_write e, kind_of a e))) cells)
    | Faulty _ _ => Done []
    | Undefined => Undefined
    end) effects in
  Done (concat found).

Definition conflict (l m : list (cell * use)) : bool :=
  existsb (fun '(c, (w, k)) => existsb (fun '(d, (v, j)) =>
    same_key c d && (w || v) && negb (commute k j)) m) l.

Fixpoint race (l : list (nat * list (cell * use))) (before : list (nat * list (cell * use)))
    : outcome unit :=
  match l with
  | [] => Done tt
  | (a, t) :: l =>
    match List.find (fun e => conflict (snd e) t) before with
    | Some (b, _) => Faulty DataRace [b; a]
    | None => race l (before ++ [(a, t)])
    end
  end.

(** Two accesses that nothing orders, or a deadlock. *)
Definition state_fault (s : state) : outcome unit :=
  let* found := each (fun '(a, q) =>
    match op_of q with
    | Some (Access effects) => let* t := touched s a effects in Done [(a, t)]
    | _ => Done []
    end) (numbered (st_positions s)) in
  let* _ := race (concat found) [] in
  let* possible := steps s in
  let waiting := filter (fun e => negb (is_empty (frames (snd e)))) (numbered (st_positions s)) in
  guard (is_empty possible && negb (is_empty waiting)) Deadlock (map fst waiting).

(** *** The start *)

Definition initial : outcome state :=
  let* positions := each (fun g => settle local_steps_max g [(ag_entry g, O)] (ag_first g))
                      (pr_agents p) in
  let barriers := flat_map (fun '(n, b) => map (fun i => ((n, i),
    Mbarrier (if ba_initialised b then Usable else Absent) engine (ba_count b) (ba_count b) 0 0 []
      true [])) (below (ba_stages b))) (numbered (pr_barriers p)) in
  let named := flat_map (fun '(n, stages) => map (fun i => ((n, i), Named 0 0 [] [] [])) (below stages))
                 (numbered (pr_named p)) in
  let cells := fold_left (fun l b => fold_left (fun l c =>
      match find same_key c l, bu_initial b with
      | Some _, None => l
      | _, t => put same_key c
          (Content (match t with Some t => t | None => undefined_tile end) [] [] [] false no_marks) l
      end) (flat_map (fun stage => cells_of b stage None) (below (bu_stages b))) l)
    (pr_buffers p) [] in
  let queues := flat_map (fun '(a, _) => map (fun '(q, _) => ((a, q), Groups [] []))
                  (numbered (pr_queues p))) (numbered (pr_agents p)) in
  Done (State positions (map (fun _ => 0) (pr_agents p)) barriers named cells queues [] (pr_pools p)).

End Machine.
