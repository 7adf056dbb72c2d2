(** The table of commutation: which steps of sync programs are independent, proved of Sync.v.

    [footprint] lists what a step sees and changes, and its actions on barriers, queues and pools, from the state and the operation alone;
    [independent] is the table: neither changes what the other sees, and where both act on one location the two actions lead to
    the same content in either order. Then the steps lead in either order to the
    same state ([independent_commute]), and neither hides a fault of the other ([independent_fault]). It is extracted, and
    held against the single steps that the checker of certificates takes for all (tests/proofs/test_commutation.py). *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames SyncParts SyncActs SyncMeets.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).
Notation acting := (acting p).

(** ** The table *)

(** What a step does, without the checks behind it: of the end of CTAs, and of waits that are lapped. *)
Definition body (s : state) (x : step_) : outcome state :=
  match x with
  | AgentStep a => execute p s a
  | FinishStep a n => engine_step p s a n false
  | ReadsStep a n => engine_step p s a n true
  end.

(** What a step sees and what it changes, and its actions. *)
Definition foot : Type := list loc * list loc * acts.

Definition at_barrier (a : nat) (env : nat -> Z) (r : reference) (f : key -> mbarrier -> outcome mbarrier) : option foot :=
  match key_of env r with
  | Done k => Some (far_end p a k false, [AtBarrier k], [(AtBarrier k, on_barrier (f k))])
  | _ => None
  end.

(** Who waits at a named barrier that the arrival fills goes on with it. *)
Definition at_named (s : state) (a : nat) (env : nat -> Z) (r : reference) (threads : expression) (sync : bool) : option foot :=
  match key_of env r, agent_of p a, value env threads with
  | Done k, Done g, Done all =>
    match find same_key k (st_named s) with
    | Some n =>
      let full := match met p a g k all sync n with Done (_, full) => full | _ => false end in
      if full && negb (is_empty (na_waiting n)) then
        let l := map Z.to_nat (na_waiting n) ++ [a] in
        Some (AtNamed k :: map AtPlace l, AtNamed k :: map AtPlace l ++ stops p s l, [])
      else Some ([], [AtNamed k], [(AtNamed k, on_named (meet_act p full a g k all sync))])
    | None => None
    end
  | _, _, _ => None
  end.

Definition at_queue (s : state) (k : nat * nat) (R W : list loc) (f : groups -> option groups) : option foot :=
  match find same_pair k (st_queues s) with
  | Some g =>
    match f g with
    | Some g' => Some (R, W ++ queue_moves k g g', [(AtQueue k, on_queue f)])
    | None => None
    end
  | None => None
  end.

Definition at_pool (a : nat) (env : nat -> Z) (n : nat) (amount : expression) (f : Z -> Z -> Z) : option foot :=
  match pool_units a env amount with
  | Done m => Some ([], [AtPool n], [(AtPool n, on_number (f m))])
  | _ => Some ([], [], [])
  end.

Definition is_async_fence (kind : fence_kind) : bool := match kind with FenceAsync => true | _ => false end.

(** Of an operation, beside the place of its agent; None: the table says nothing of it. *)
Definition operation_footprint (s : state) (a : nat) (env : nat -> Z) (o : operation) : option foot :=
  match o with
  | Access effects =>
    match resolved p s a env effects with
    | Done l => if plain_effects p l
                then Some (alive_list p a effects ++ over_cells (seen_by a) l, over_cells (changed_by a) l, []) else None
    | _ => None
    end
  | Asynchronous site effects q completes chunks =>
    match parts_of p s a env effects, nth_error (st_issued s) a, done_of s a env completes with
    | Done l, Some n, Done done =>
      if issue_plain p l then
        let f := Flight a n site (concat l) done true chunks chunks false q in
        let R := AtIssued a :: alive_list p a effects ++ issue_seen l in
        match q with
        | None => Some (AtFlight a n :: R, AtIssued a :: AtFlight a n :: touched_cells f, [])
        | Some q => match queue_decl p q with Done d => at_queue s (a, q) R [AtIssued a] (append d f) | _ => None end
        end
      else None
    | _, _, _ => None
    end
  | Commit q => at_queue s (a, q) [] [] commit_act
  | QueueWait _ _ _ => Some ([], [], [])
  | QueueArrive site q r count =>
    match nth_error (st_issued s) a, declared s a env r, value env count, queue_decl p q with
    | Some n, Done k, Done m, Done d =>
      at_queue s (a, q) [AtIssued a] [AtIssued a] (append d (Flight a n site [] [(k, m)] false 1 1 true (Some q)))
    | _, _, _, _ => None
    end
  | Arrive r count bytes drop token => at_barrier a env r (fun k => arrive_act p s a env k count bytes drop token)
  | ExpectTransaction r bytes => at_barrier a env r (fun k => expect_act p s a env k bytes)
  | Wait r _ phase => at_barrier a env r (fun k => wait_act p s a env k phase)
  | TokenWait r => at_barrier a env r (fun k => token_act p s a k)
  | BarrierSync r threads => at_named s a env r threads true
  | BarrierArrive r threads => at_named s a env r threads false
  | BarrierWait r => match key_of env r with Done k => Some ([], [AtNamed k], [(AtNamed k, on_named (wait_named a))]) | _ => None end
  | Fence kind spaces =>
    let l := fence_cells p a kind spaces in
    let W := flat_map (fence_changed a kind) l in
    if simple_fence kind && negb (po_path (pr_policies p)) then
      if is_async_fence kind && once l then Some (over s (clear_seen a) l, over s (clear_changed p a) l, over s (clear_acts a) l)
      else Some (filter own W, W, [])
    else None
  | PoolTake n amount => at_pool a env n amount (fun m v => v - m)
  | PoolGive n amount => at_pool a env n amount (fun m v => v + m)
  | _ => None
  end.

Definition engine_footprint (s : state) (a : nat) (n : Z) (early : bool) : option foot :=
  let changed f := effect_changed f early ++ ends_changed f early in
  match List.find (is_mark a n) (st_free s) with
  | Some f =>
    if flight_plain p f && once (map fst (fl_completes f)) then
      Some (AtFlight a n :: ends_seen p f early,
            changed f ++ AtFlight a n :: flat_map touched_cells (filter (is_mark a n) (st_free s)), ends_acts p s f early)
    else None
  | None =>
    match where_ a n s with
    | Some (owner, q) =>
      match queue_decl p q, find same_pair (owner, q) (st_queues s) with
      | Done d, Some g =>
        match List.find (is_mark a n) (contents g) with
        | Some f =>
          if flight_plain p f && once (map fst (fl_completes f)) && distinct (map fst (st_queues s)) then
            Some (AtFlight a n :: AtWhere a n :: ends_seen p f early,
                  changed f ++ queue_moves (owner, q) g (finished d a n (rest_of f early) g),
                  ends_acts p s f early ++ [(AtQueue (owner, q), on_queue (finish_act d a n f early))])
          else None
        | None => None
        end
      | _, _ => None
      end
    | None => None
    end
  end.

(** An agent that arrives at a barrier and waits there stays where it is. *)
Definition arrives_only (s : state) (a : nat) (env : nat -> Z) (o : operation) : bool :=
  match o with
  | BarrierSync r threads =>
    match key_of env r, agent_of p a, value env threads with
    | Done k, Done g, Done all =>
      match find same_key k (st_named s) with
      | Some n => match met p a g k all true n with Done (_, true) => false | _ => true end
      | None => false
      end
    | _, _, _ => false
    end
  | _ => false
  end.
Definition leaves (s : state) (a : nat) (env : nat -> Z) (o : operation) : list loc :=
  if arrives_only s a env o then [] else AtPlace a :: stops p s [a].

Definition footprint (s : state) (x : step_) : option foot :=
  match x with
  | AgentStep a =>
    match nth_error (st_positions s) a, env_of p s a with
    | Some q, Done env =>
      match op_of p q with
      | Some o =>
        match operation_footprint s a env o with
        | Some (R, W, A) => Some (AtPlace a :: R, leaves s a env o ++ W, A)
        | None => None
        end
      | None => None
      end
    | _, _ => None
    end
  | FinishStep a n => engine_footprint s a n false
  | ReadsStep a n => engine_footprint s a n true
  end.

Definition disjoint (W R : list loc) : bool := forallb (fun l => negb (in_list l R)) W.
Definition seen_too (R W : list loc) (A : acts) : bool := forallb (fun l => negb (own l) || in_list l R || in_list l (map fst A)) W.
Definition speaks (x : option (outcome part)) : bool := match x with Some _ => true | None => false end.

(** Who changes a location of the other's actions acts there, too, and in either order they lead to one content. *)
Definition acts_meet (A B : acts) (W : list loc) (s : state) : bool :=
  forallb (fun '(l, q) => speaks (q (part_at l s)) &&
    (negb (in_list l W) || existsb (fun '(h, r) => (if loc_dec h l then true else false) && either r q (part_at l s)) A)) B.

Definition beside_each_other (s : state) (x y : step_) : bool :=
  match footprint s x, footprint s y with
  | Some (R, W, A), Some (R', W', A') =>
    seen_too R W A && seen_too R' W' A' && disjoint W R' && disjoint W' R && acts_meet A A' W s && acts_meet A' A W' s
  | _, _ => false
  end.

Definition fill_one_barrier (s : state) (x y : step_) : bool :=
  match x, y with AgentStep a, AgentStep b => fill_together p s a b | _, _ => false end.

(** The table: two steps that may be done in either order. *)
Definition independent (s : state) (x y : step_) : bool := beside_each_other s x y || fill_one_barrier s x y.

(** *** It is right *)

Lemma acting_place A R F W s a env o q (run : (nat -> Z) -> operation -> state -> outcome state) :
  nth_error (st_positions s) a = Some q -> env_of p s a = Done env -> op_of p q = Some o -> In (AtPlace a) R ->
  acting A R F W s (run env o) ->
  acting A R F W s (fun t => let* q := got (nth_error (st_positions t) a) in let* env := env_of p t a in
    let* o := got (op_of p q) in run env o t).
Proof.
  intros Q E O I H t N. assert (P : nth_error (st_positions s) a = nth_error (st_positions t) a) by apply (proj2 N _ I).
  assert (V : env_of p t a = env_of p s a) by (unfold env_of; now rewrite P).
  rewrite V, <- P, Q, E. cbn [got bind]. rewrite O. cbn [got bind]. now apply H.
Qed.

(** An operation, and going on behind it. *)
Lemma acting_goes_on A R W s a f : In (AtPlace a) R -> (forall b, ~ In (AtPlace b) W) -> held A -> ~ In (AtPlace a) (map fst A) ->
  acting A R (filter own R) W s f ->
  acting A R (filter own R) (AtPlace a :: stops p s [a] ++ W) s (fun t => bind (f t) (fun t => advance p t a)).
Proof.
  intros I N O NA H. apply (acting_less p A R (filter own R) _ (W ++ AtPlace a :: stops p s [a])); [apply incl_refl| |].
  { intros l L. apply in_app_or in L as [L|[L|L]]; [right; apply in_or_app; now right|now left|right; apply in_or_app; now left]. }
  rewrite <- (app_nil_r A). apply (acting_bind p A [] R (filter own R) (filter own R)); try easy.
  - intros s' _ M. assert (P : st_positions s = st_positions s').
    { apply same_places; [apply M|]. intros i. exact (proj2 M (AtPlace i) (N i)). }
    apply (acting_same p [] _ _ _ s' (fun t => fold (fun s o => advance p s o) t [a])); [intros v; apply go_one|].
    apply (acting_less p [] _ (filter own (filter own R)) _ (AtPlace a :: stops p s [a])); [apply own_own|apply incl_refl|].
    apply acting_go; [intros x [<-|[]]; now apply filter_In|intros x [<-|[]]; now left|]. rewrite (stops_same p s' s) by easy. intros x X. now right.
  - intros l L [X|X]; [now subst|]. apply named_act in L as (r & L). specialize (O l r L). now destruct (stops_ended p s [a] l X) as [c ->].
Qed.

Lemma no_place_over a b l : ~ In (AtPlace b) (over_cells (changed_by a) l).
Proof.
  intros I. apply in_flat_map in I as (x & _ & I). apply in_flat_map in I as (c & _ & I).
  unfold changed_by in I. destruct (ef_write (fst x)); cbn in I; intuition discriminate.
Qed.

Lemma moves_kinds k g g' l : In l (queue_moves k g g') -> l = AtQueue k \/ (exists c, l = AtTouch c \/ l = AtWrites c) \/ exists a n, l = AtWhere a n.
Proof.
  unfold queue_moves. intros [<-|I]; [now left|right]. repeat (apply in_app_or in I as [I|I]); apply in_flat_map in I as (x & _ & I).
  - destruct (touch_dec _ _); [easy|]. destruct I as [<-|[]]. left. exists x. now left.
  - destruct (touch_dec _ _); [easy|]. destruct I as [<-|[]]. left. exists x. now right.
  - destruct (Bool.bool_dec _ _); [easy|]. destruct I as [<-|[]]. right. eauto.
Qed.

Lemma acting_at_queue R0 W0 s a q phi F R W A f : at_queue s (a, q) R0 W0 phi = Some (R, W, A) ->
  (forall V, In (AtQueue (a, q)) V -> moves_in V s (a, q) phi -> R = R0 -> acting [(AtQueue (a, q), on_queue phi)] F (filter own F) (W0 ++ V) s f) ->
  acting A F (filter own F) W s f /\ R = R0 /\ (forall b, In (AtPlace b) W -> In (AtPlace b) W0) /\ (forall b, ~ In (AtPlace b) (map fst A)) /\ held A.
Proof.
  unfold at_queue. destruct (find same_pair (a, q) (st_queues s)) as [g|] eqn:G; [|easy]. destruct (phi g) as [g'|] eqn:P; [|easy]. intros [= <- <- <-] H.
  split. { apply H; [now left| |easy]. intros h h' E E'. replace h with g by congruence. replace h' with g' by congruence. apply incl_refl. }
  split; [easy|]. split.
  { intros b I. apply in_app_or in I as [I|I]; [easy|]. apply moves_kinds in I as [I|[(c & [I|I])|(c & m & I)]]; discriminate. }
  split; [now intros b [X|[]]|]. intros l r [[= <- _]|[]]. easy.
Qed.

Lemma frame_operation R W A s a env o : operation_footprint s a env o = Some (R, W, A) ->
  nth_error (st_positions s) a <> None -> env_of p s a = Done env ->
  (forall q, nth_error (st_positions s) a = Some q -> op_of p q = Some o) ->
  acting A (AtPlace a :: R) (filter own (AtPlace a :: R)) (leaves s a env o ++ W) s (fun t => execute p t a) /\ held A.
Proof.
  intros H Q0 E OQ. destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. specialize (OQ q eq_refl). clear Q0.
  set (R' := AtPlace a :: R) in *. assert (PR : In (AtPlace a) R') by now left.
  assert (IR : incl R R') by (intros l L; now right).
  unfold execute.
  assert (X : acting A R' (filter own R') (leaves s a env o ++ W) s ((fun env o t =>
    let goes_on x := let* s := x in advance p s a in
    match o with
    | Access effects => goes_on (access p t a env effects)
    | Asynchronous site effects q completes chunks => goes_on (issue p t a env site effects q completes chunks)
    | QueueArrive site q r count => goes_on (queue_arrive p t a env site q r count)
    | Commit q => goes_on (commit t a q)
    | QueueWait _ _ _ => advance p t a
    | Init r count => goes_on (init p t a env r count)
    | Invalidate r => goes_on (invalidate p t a env r)
    | Arrive r count bytes drop token => goes_on (arrive p t a env r count bytes drop token)
    | ExpectTransaction r bytes => goes_on (expect p t a env r bytes)
    | Wait r _ phase => goes_on (wait p t a env r phase)
    | TokenWait r => goes_on (token_wait p t a env r)
    | BarrierSync r threads => let* (s, on) := meet p t a env r threads true in if on then advance p s a else Done s
    | BarrierArrive r threads => let* (s, on) := meet p t a env r threads false in if on then advance p s a else Done s
    | BarrierWait r => goes_on (named_wait t a env r)
    | Fence kind spaces => goes_on (fence p t a kind spaces)
    | PoolTake pool amount => let* n := pool_units a env amount in let* free := got (nth_error (st_pools t) pool) in
      goes_on (Done (with_pools (set_nth pool (free - n) (st_pools t)) t))
    | PoolGive pool amount => let* n := pool_units a env amount in let* free := got (nth_error (st_pools t) pool) in
      goes_on (Done (with_pools (set_nth pool (free + n) (st_pools t)) t))
    | Assign _ _ | Loop _ _ _ _ | Branch _ _ _ => Undefined
    end) env o) /\ held A); [|split; [|apply X]; destruct X as [X _]; now apply (acting_place A R' (filter own R') _ s a env o q (fun env o t => _))].
  cbv zeta beta.
  assert (PL : forall f, frame R' R' W s f -> A = [] -> (forall b, ~ In (AtPlace b) W) ->
    acting A R' (filter own R') (AtPlace a :: stops p s [a] ++ W) s (fun t => bind (f t) (fun t => advance p t a)) /\ held A).
  { intros f Hf -> N. split; [|easy]. apply acting_goes_on; try easy. apply acting_frame. now apply frame_after with R'; [apply own_less|]. }
  assert (PO : forall f, acting A R' (filter own R') W s f -> held A -> ~ In (AtPlace a) (map fst A) -> (forall b, ~ In (AtPlace b) W) ->
    acting A R' (filter own R') (AtPlace a :: stops p s [a] ++ W) s (fun t => bind (f t) (fun t => advance p t a)) /\ held A).
  { intros f Hf O NA N. split; [|easy]. now apply acting_goes_on. }
  assert (BA : forall r phi f, at_barrier a env r phi = Some (R, W, A) ->
    (forall k, key_of env r = Done k -> ~ In (AtBarrier k) R' -> incl (far_end p a k false) R' ->
      acting [(AtBarrier k, on_barrier (phi k))] R' (filter own R') [AtBarrier k] s f) ->
    acting A R' (filter own R') (AtPlace a :: stops p s [a] ++ W) s (fun t => bind (f t) (fun t => advance p t a)) /\ held A).
  { intros r phi f B Hf. unfold at_barrier in B. destruct (key_of env r) as [k| |] eqn:K; try easy. injection B as HR <- <-.
    apply PO; try (now intros [X|[]]); try (now intros y [X|[]]).
    - apply Hf; [easy| |now rewrite HR]. intros [X|X]; [easy|]. rewrite <- HR in X. unfold far_end in X. destruct (_ && _); [|easy]. now destruct X.
    - intros l x [[= <- _]|[]]. easy. }
  assert (NA : forall r threads sync, at_named s a env r threads sync = Some (R, W, A) ->
    acting A R' (filter own R') (leaves s a env (if sync then BarrierSync r threads else BarrierArrive r threads) ++ W) s (fun t => meet_on p t a env r threads sync) /\ held A).
  { intros r threads sync N. unfold at_named in N. destruct (key_of env r) as [k| |] eqn:K; try easy. destruct (agent_of p a) as [g| |] eqn:G; try easy.
    destruct (value env threads) as [all| |] eqn:V; try easy. destruct (find same_key k (st_named s)) as [n|] eqn:B; [|easy].
    set (full := match met p a g k all sync n with Done (_, full) => full | _ => false end) in *. destruct (full && negb (is_empty (na_waiting n))) eqn:Fl.
    - injection N as HR HW <-. split; [|easy].
      destruct (met p a g k all sync n) as [[m f]| |] eqn:MT; try (cbn in Fl; discriminate Fl). cbn in full. subst full.
      apply andb_true_iff in Fl as [-> _].
      apply (acting_fill p R' _ s a env r threads sync g k all n); try easy.
      + now exists m.
      + intros l L. apply IR. rewrite <- HR. now right.
      + apply IR. rewrite <- HR. now left.
      + rewrite <- HW. intros l L. apply in_or_app. now right.
    - injection N as HR HW <-. split.
      + assert (LV : leaves s a env (if sync then BarrierSync r threads else BarrierArrive r threads) =
          if sync && negb full then [] else AtPlace a :: stops p s [a]).
        { unfold leaves, arrives_only. destruct sync; [|easy]. rewrite K, G, V, B. unfold full.
          now destruct (met p a g k all true n) as [[m []]| |]. }
        apply (acting_less p _ R' (filter own R') _ ([AtNamed k] ++ if sync && negb full then [] else AtPlace a :: stops p s [a])); [apply incl_refl| |].
        * rewrite <- HW, LV. intros y [<-|Y]; apply in_or_app; [right; now left|now left].
        * apply (acting_meet p R' s a env r threads sync g k all full); try easy. intros [X|X]; [easy|]. now rewrite <- HR in X.
      + intros l x [[= <- _]|[]]. easy. }
  assert (MO : forall r threads sync t, (let* (s, on) := meet p t a env r threads sync in if on then advance p s a else Done s) = meet_on p t a env r threads sync).
  { intros r threads sync t. unfold meet_on. now destruct (meet p t a env r threads sync) as [[u on]| |]. }
  destruct o; cbn [operation_footprint] in H; try easy.
  - destruct (resolved p s a env effects) as [l| |] eqn:L; try easy. destruct (plain_effects p l) eqn:P; [|easy]. injection H as HR <- <-.
    apply PL; [|easy|intros y; apply no_place_over]. apply (frame_access p R' _ s a env effects l); try easy;
      intros x X; apply IR; rewrite <- HR; apply in_or_app; [now left|now right].
  - destruct (parts_of p s a env effects) as [l| |] eqn:L; try easy. destruct (nth_error (st_issued s) a) as [n|] eqn:N; [|easy].
    destruct (done_of s a env completes) as [done| |] eqn:D; try easy. destruct (issue_plain p l) eqn:P; [|easy].
    assert (SN : forall k, ~ In (AtQueue k) (alive_list p a effects ++ issue_seen l)).
    { intros k I. apply in_app_or in I as [I|I]; apply in_flat_map in I as (x & _ & I).
      - destruct (nth_error (pr_buffers p) (ef_buffer x)); [|easy]. destruct (_ && _); [|easy]. now destruct I.
      - destruct I as [I|[I|I]]; [easy|now destruct (fa_write x)|]. unfold proxy_seen in I.
        destruct (fa_proxy x), (fa_write x); cbn in I; intuition discriminate. }
    destruct queue as [qn|].
    + destruct (queue_decl p qn) as [d| |] eqn:QD; try easy.
      destruct (acting_at_queue _ _ s a qn _ R' R W A (fun t => issue p t a env site effects (Some qn) completes chunks) H) as (X1 & X2 & X3 & X4 & X5).
      * intros V IV MV HR. apply (acting_issue p _ R' _ _ s a env site effects (Some qn) completes chunks l n done); try easy;
          try (intros x X; apply IR; rewrite HR; right; apply in_or_app; now (left + right)); [apply IR; rewrite HR; now left|].
        apply (acting_enqueue p R' (filter own R') V s qn d (Flight a n site (concat l) done true chunks chunks false (Some qn)) n); try easy.
        -- apply own_less.
        -- intros [X|X]; [easy|]. rewrite HR in X. destruct X as [X|X]; [easy|]. now apply (SN (a, qn)).
        -- intros x X. now apply filter_In in X.
        -- apply IR. rewrite HR. now left.
      * apply PO; try easy. intros y I. apply X3 in I. now destruct I as [I|[]].
    + injection H as HR HW <-. apply PO; try easy.
      * apply (acting_issue p _ R' _ _ s a env site effects None completes chunks l n done); try easy;
          try (intros x X; apply IR; rewrite <- HR; right; right; apply in_or_app; now (left + right)); [apply IR; rewrite <- HR; right; now left|].
        apply acting_frame, acting_free; cbn [fl_agent fl_ordinal].
        -- apply IR. rewrite <- HR. right. now left.
        -- rewrite <- HW. now left.
        -- rewrite <- HW. right. now left.
        -- rewrite <- HW. intros x X. right. now right.
      * rewrite <- HW. intros y [X|[X|X]]; try easy. apply in_flat_map in X as (w & _ & X). destruct (fa_write w); cbn in X; intuition discriminate.
  - destruct (acting_at_queue _ _ s a queue _ R' R W A (fun t => commit t a queue) H) as (X1 & X2 & X3 & X4 & X5).
    + intros V IV MV HR. apply acting_commit; [easy|easy|apply own_less| |intros x X; now apply filter_In in X]. intros [X|X]; [easy|]. now rewrite HR in X.
    + apply PO; try easy; intros y I; now apply X3 in I.
  - injection H as HR <- <-. split; [|easy].
    apply (acting_same p [] _ _ _ s (fun t => fold (fun s o => advance p s o) t [a])); [intros v; apply go_one|].
    apply acting_go; [intros x [<-|[]]; now left|intros x [<-|[]]; now left|]. intros l L. right. apply in_or_app. now left.
  - destruct (nth_error (st_issued s) a) as [n|] eqn:N; [|easy]. destruct (declared s a env barrier) as [k| |] eqn:K; try easy.
    destruct (value env count) as [m| |] eqn:M; try easy. destruct (queue_decl p queue) as [d| |] eqn:QD; try easy.
    destruct (acting_at_queue _ _ s a queue _ R' R W A (fun t => queue_arrive p t a env site queue barrier count) H) as (X1 & X2 & X3 & X4 & X5).
    + intros V IV MV HR. apply (acting_queue_arrive p R' (filter own R') V s a env site queue barrier count d n k m); try easy.
      * apply own_less.
      * intros [X|X]; [easy|]. rewrite HR in X. now destruct X.
      * intros x X. now apply filter_In in X.
      * apply IR. rewrite HR. now left.
    + apply PO; try easy. intros y I. apply X3 in I. now destruct I as [I|[]].
  - apply (BA barrier _ _ H). intros k K N I. apply acting_arrive; try easy; [apply own_less|now left].
  - apply (BA barrier _ _ H). intros k K N I. apply acting_expect; try easy; [apply own_less|now left].
  - apply (BA barrier _ _ H). intros k K N I. apply acting_wait; try easy; [apply own_less|now left].
  - apply (BA barrier _ _ H). intros k K N I. apply acting_token; try easy; [apply own_less|now left].
  - destruct (NA barrier threads true H) as [X Y]. split; [|easy].
    apply (acting_same p A R' _ _ s (fun t => meet_on p t a env barrier threads true)); [|easy]. intros t. symmetry. apply MO.
  - destruct (NA barrier threads false H) as [X Y]. split; [|easy].
    apply (acting_same p A R' _ _ s (fun t => meet_on p t a env barrier threads false)); [|easy]. intros t. symmetry. apply MO.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as HR <- <-. apply PO; try (now intros [X|[]]); try (now intros y [X|[]]).
    + apply acting_named_wait; [easy|apply own_less| |now left]. intros [X|X]; [easy|]. now rewrite <- HR in X.
    + intros l x [[= <- _]|[]]. easy.
  - destruct (simple_fence kind) eqn:S; [|easy]. destruct (po_path (pr_policies p)) eqn:P; [easy|]. cbn [andb negb] in H.
    destruct (is_async_fence kind && once (fence_cells p a kind spaces)) eqn:B.
    { apply andb_true_iff in B as [B O]. destruct kind; try easy. injection H as HR <- <-.
      assert (OW : forall l, In l R' -> own l = true).
      { intros l [<-|L]; [easy|]. rewrite <- HR in L. apply in_flat_map in L as (c & _ & [<-|L]); [easy|].
        apply filter_In in L as [[<-|[<-|[<-|[<-|[]]]]] _]; easy. }
      assert (NP : forall y l, In l (over s (clear_changed p a) (fence_cells p a FenceAsync spaces)) -> l <> AtPlace y).
      { intros y l L ->. apply in_flat_map in L as (c & _ & L). now apply changed_cell in L. }
      apply PO.
      - apply (acting_less p _ R' R' _ (over s (clear_changed p a) (fence_cells p a FenceAsync spaces))); [apply own_less|apply incl_refl|].
        apply acting_fence; try easy. intros l L. apply IR. now rewrite <- HR.
      - intros l r L. apply in_flat_map in L as (c & _ & L). now destruct (acts_cell a _ c l r L).
      - intros L. apply named_act in L as (r & L). apply in_flat_map in L as (c & _ & L). now destruct (acts_cell a _ c _ r L).
      - intros y L. now apply (NP y _ L). }
    injection H as HR <- <-.
    apply PL; [now apply frame_fence|easy|]. intros y X. apply in_flat_map in X as (c & _ & X). destruct kind; cbn in X; intuition discriminate.
  - unfold at_pool in H. destruct (pool_units a env amount) as [n| |] eqn:N; injection H as HR <- <-; cbn [bind]; [|now split; [intros t _ _|]..].
    assert (X : acting [(AtPool pool, on_number (fun v => v - n))] R' (filter own R') [AtPool pool] s
      (fun t => bind (got (nth_error (st_pools t) pool)) (fun v => Done (with_pools (set_nth pool (v - n) (st_pools t)) t)))).
    { apply acting_pool; [apply own_less| |now left|].
      - intros [X|X]; [easy|]. now rewrite <- HR in X.
      - intros t v _ V. now rewrite V. }
    apply PO in X; [|intros l x [[= <- _]|[]]; easy|(now intros [Y|[]] || now intros y [Y|[]])..]. destruct X as [X Y]. split; [|easy].
    apply (acting_same p _ R' _ _ s _ _ (fun t => match nth_error (st_pools t) pool as z return
      bind (bind (got z) (fun v => Done (with_pools (set_nth pool (v - n) (st_pools t)) t))) (fun t => advance p t a) =
      bind (got z) (fun v => bind (Done (with_pools (set_nth pool (v - n) (st_pools t)) t)) (fun t => advance p t a))
      with Some _ => eq_refl | None => eq_refl end)). exact X.
  - unfold at_pool in H. destruct (pool_units a env amount) as [n| |] eqn:N; injection H as HR <- <-; cbn [bind]; [|now split; [intros t _ _|]..].
    assert (X : acting [(AtPool pool, on_number (fun v => v + n))] R' (filter own R') [AtPool pool] s
      (fun t => bind (got (nth_error (st_pools t) pool)) (fun v => Done (with_pools (set_nth pool (v + n) (st_pools t)) t)))).
    { apply acting_pool; [apply own_less| |now left|].
      - intros [X|X]; [easy|]. now rewrite <- HR in X.
      - intros t v _ V. now rewrite V. }
    apply PO in X; [|intros l x [[= <- _]|[]]; easy|(now intros [Y|[]] || now intros y [Y|[]])..]. destruct X as [X Y]. split; [|easy].
    apply (acting_same p _ R' _ _ s _ _ (fun t => match nth_error (st_pools t) pool as z return
      bind (bind (got z) (fun v => Done (with_pools (set_nth pool (v + n) (st_pools t)) t))) (fun t => advance p t a) =
      bind (got z) (fun v => bind (Done (with_pools (set_nth pool (v + n) (st_pools t)) t)) (fun t => advance p t a))
      with Some _ => eq_refl | None => eq_refl end)). exact X.
Qed.

Lemma ends_no_barrier f early k : ~ In (AtBarrier k) (ends_seen p f early).
Proof.
  unfold ends_seen. intros I. apply in_app_or in I as [I|I].
  - apply filter_In in I as [I _]. unfold effect_changed in I. destruct early; [easy|]. destruct (fl_chunks f =? 1); [|easy].
    apply in_flat_map in I as (w & _ & I). destruct (fa_write w), (is_generic (fa_proxy w)); cbn in I; intuition discriminate.
  - destruct early; [easy|]. apply in_flat_map in I as (c & _ & I). unfold far_end in I. destruct (_ && _); [|easy]. now destruct I.
Qed.
Lemma ends_no_queue f early k : ~ In (AtQueue k) (ends_seen p f early).
Proof.
  unfold ends_seen. intros I. apply in_app_or in I as [I|I].
  - apply filter_In in I as [I _]. unfold effect_changed in I. destruct early; [easy|]. destruct (fl_chunks f =? 1); [|easy].
    apply in_flat_map in I as (w & _ & I). destruct (fa_write w), (is_generic (fa_proxy w)); cbn in I; intuition discriminate.
  - destruct early; [easy|]. apply in_flat_map in I as (c & _ & I). unfold far_end in I. destruct (_ && _); [|easy]. now destruct I.
Qed.

Lemma frame_engine R W A s a n early : engine_footprint s a n early = Some (R, W, A) ->
  acting A R (filter own R) W s (fun t => engine_step p t a n early) /\ held A.
Proof.
  assert (HE : forall f early, held (ends_acts p s f early)).
  { intros f e l r I. now destruct (acts_barriers p s f e l r I) as [k ->]. }
  unfold engine_footprint. cbv zeta. destruct (List.find (is_mark a n) (st_free s)) as [f|] eqn:F.
  - destruct (flight_plain p f && once (map fst (fl_completes f))) eqn:P; [|easy]. apply andb_true_iff in P as [P O]. intros [= <- <- <-].
    split; [|apply HE]. apply acting_engine_free; try easy; try (now left).
    + intros k [X|X]; [easy|]. now apply ends_no_barrier in X.
    + intros l L. now right.
    + intros k [X|X]; [easy|]. apply in_flat_map in X as (g & _ & X). apply in_flat_map in X as (w & _ & X). destruct (fa_write w); cbn in X; intuition discriminate.
    + intros l L. now right.
  - destruct (where_ a n s) as [[owner q]|] eqn:Wh; [|easy]. destruct (queue_decl p q) as [d| |] eqn:QD; try easy.
    destruct (find same_pair (owner, q) (st_queues s)) as [g|] eqn:G; [|easy].
    destruct (List.find (is_mark a n) (contents g)) as [f|] eqn:M; [|easy].
    destruct (flight_plain p f && once (map fst (fl_completes f)) && distinct (map fst (st_queues s))) eqn:P; [|easy].
    apply andb_true_iff in P as [P D]. apply andb_true_iff in P as [P O]. intros [= <- <- <-]. split.
    + apply acting_engine_queue; try easy; try (cbn; tauto).
      * intros k [X|[X|X]]; try easy. now apply ends_no_barrier in X.
      * intros l L. right. now right.
      * intros h h' E E'. replace h with g in E' by congruence. unfold finish_act in E'. rewrite M in E'.
        destruct (flight_dec f f); [|easy]. injection E' as <-. replace h with g by congruence. apply incl_refl.
      * intros k X. apply moves_kinds in X as [X|[(c & [X|X])|(c & m & X)]]; discriminate.
      * intros [X|[X|X]]; try easy. now apply ends_no_queue in X.
    + intros l r I. apply in_app_or in I as [I|[[= <- _]|[]]]; [now apply (HE f early l r)|easy].
Qed.

(** A step sees no more of a state than its footprint lists, changes no more, and acts as it says. *)
Theorem footprint_acting s x R W A : footprint s x = Some (R, W, A) -> acting A R (filter own R) W s (fun t => body t x) /\ held A.
Proof.
  destruct x as [a|a n|a n]; cbn [footprint body]; [|apply frame_engine..].
  destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. destruct (env_of p s a) as [env| |] eqn:E; try easy.
  destruct (op_of p q) as [o|] eqn:O; [|easy]. destruct (operation_footprint s a env o) as [[[R' W'] A']|] eqn:H; [|easy].
  intros [= <- <- <-]. apply (frame_operation R' W' A' s a env o); try easy; [congruence|]. intros r X. congruence.
Qed.

Lemma listed_in l m : in_list l m = true <-> In l m.
Proof. unfold in_list. now destruct (in_dec loc_dec l m). Qed.
Lemma disjoint_apart W R : disjoint W R = true -> apart W R.
Proof.
  unfold disjoint. rewrite forallb_forall. intros H l L I. specialize (H l L). apply negb_true_iff in H. apply listed_in in I. congruence.
Qed.
Lemma seen_covered R W A : seen_too R W A = true -> kept_or_acted W (filter own R) A.
Proof.
  unfold seen_too. rewrite forallb_forall. intros H l L O. specialize (H l L). rewrite O in H. cbn [negb orb] in H.
  apply orb_true_iff in H as [H|H]; apply listed_in in H; [left; now apply filter_In|now right].
Qed.
Lemma acts_meets A B W s : acts_meet A B W s = true -> meets A B W s.
Proof.
  unfold acts_meet, meets. rewrite forallb_forall. intros H l q I. specialize (H _ I). cbn in H. apply andb_true_iff in H as [H K]. split.
  - unfold speaks in H. destruct (q (part_at l s)) as [[]|]; now cbn.
  - intros L. apply orb_true_iff in K as [K|K]; [apply negb_true_iff in K; apply listed_in in L; congruence|].
    apply existsb_exists in K as ([h r] & J & K). apply andb_true_iff in K as [K E]. destruct (loc_dec h l) as [->|]; [|easy]. now exists r.
Qed.

Lemma beside_commute s x y t u : beside_each_other s x y = true -> body s x = Done t -> body s y = Done u ->
  exists v w, body t y = Done v /\ body u x = Done w /\ alike p v w.
Proof.
  unfold beside_each_other. destruct (footprint s x) as [[[R W] A]|] eqn:X; [|easy]. destruct (footprint s y) as [[[R' W'] A']|] eqn:Y; [|easy].
  rewrite !andb_true_iff. intros [[[[[I J] C] D] M] N].
  destruct (footprint_acting s x R W A X) as [HX OX]. destruct (footprint_acting s y R' W' A' Y) as [HY OY].
  apply (acting_commute p A A' R (filter own R) W R' (filter own R') W' s t u (fun t => body t x) (fun t => body t y)); try easy;
    try (now apply seen_covered); try apply own_less; try (now apply disjoint_apart); now apply acts_meets.
Qed.

Lemma beside_fault s x y t k l : beside_each_other s x y = true -> body s x = Done t -> body s y = Faulty k l ->
  body t y = Faulty k l.
Proof.
  unfold beside_each_other. destruct (footprint s x) as [[[R W] A]|] eqn:X; [|easy]. destruct (footprint s y) as [[[R' W'] A']|] eqn:Y; [|easy].
  rewrite !andb_true_iff. intros [[[[[I J] C] D] M] N].
  destruct (footprint_acting s x R W A X) as [HX OX]. destruct (footprint_acting s y R' W' A' Y) as [HY OY].
  apply (acting_fault p A A' R (filter own R) W R' (filter own R') W' s t (fun t => body t x) (fun t => body t y)); try easy;
    try (now apply disjoint_apart); try (now apply acts_meets). intros h r K. now apply (acts_meets A' A W' s N).
Qed.

(** Independent steps lead to one state in either order, *)
Theorem independent_commute s x y t u : independent s x y = true -> body s x = Done t -> body s y = Done u ->
  exists v w, body t y = Done v /\ body u x = Done w /\ alike p v w.
Proof.
  unfold independent. rewrite orb_true_iff. intros [I|I] X Y; [now apply (beside_commute s x y t u)|].
  destruct x as [a| |], y as [b| |]; try easy. destruct (fill_either p s a b I) as (t' & u' & v & T & U & V & V'). cbn in *.
  exists v, v. replace t with t' by congruence. replace u with u' by congruence. split; [easy|]. split; [easy|].
  split; [apply shape_refl|]. intros l _. apply agree_refl.
Qed.

(** and a fault of one is the same fault behind the other. *)
Theorem independent_fault s x y t k l : independent s x y = true -> body s x = Done t -> body s y = Faulty k l ->
  body t y = Faulty k l.
Proof.
  unfold independent. rewrite orb_true_iff. intros [I|I] X Y; [now apply (beside_fault s x y t k l)|].
  destruct x as [a| |], y as [b| |]; try easy. destruct (fill_either p s a b I) as (t' & u' & v & T & U & V & V'). cbn in *. congruence.
Qed.
End Table.

Section Sums.
Variable p : program.

(** ** Arrivals at one barrier *)

Definition counted (b : mbarrier) (n t : Z) : mbarrier :=
  Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b - n) (mb_transaction b + t) (mb_phase b)
    (mb_tokens b) (mb_observed b) (mb_armed b).

Lemma counted_below s a k b n t : n < mb_pending b ->
  count_down p s a k b n t =
  bind (guard (negb ((0 <=? n) && (0 <=? mb_expected b))) OverArrival [a]) (fun _ =>
  bind (guard (negb (n =? 0) && negb (mb_observed b) && negb (po_run_ahead (pr_policies p))) UnobservedPhase [a]) (fun _ =>
  bind (guard (transaction_max <? Z.abs (mb_transaction b + t)) TransactionMismatch [a]) (fun _ =>
  Done (put_barrier s k (counted b n t))))).
Proof.
  intros H. unfold count_down, store. replace (n <=? mb_pending b) with true by (symmetry; apply Z.leb_le; lia).
  rewrite andb_true_r. cbn [mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase mb_tokens mb_observed mb_armed].
  replace (mb_pending b - n =? 0) with false by (symmetry; apply Z.eqb_neq; lia).
  destruct (negb ((0 <=? n) && (0 <=? mb_expected b))); [easy|]. cbn [guard bind]. destruct (negb (n =? 0) && _ && _); [easy|]. cbn [guard bind].
  destruct (transaction_max <? Z.abs (mb_transaction b + t)); easy.
Qed.

Definition arrives (s : state) (a : nat) (k : key) (n t : Z) : outcome state :=
  let* b := usable p s a k false in count_down p s a k b n t.


Lemma arrives_add s a b k n t m u x y held : find same_key k (st_barriers s) = Some held ->
  n + m < mb_pending held -> Z.abs (mb_transaction held + t + u) <= transaction_max ->
  arrives s a k n t = Done x -> arrives s b k m u = Done y ->
  (exists h, find same_key k (st_barriers x) = Some h) /\ (exists h, find same_key k (st_barriers y) = Some h) /\
  exists z, arrives x b k m u = Done z /\ arrives y a k n t = Done z.
Proof.
  intros F P T. unfold arrives.
  assert (U : forall c s h, find same_key k (st_barriers s) = Some h -> usable p s c k false =
    bind (guard (is_absent (mb_status h)) BarrierUninitialised [c]) (fun _ =>
    bind (guard ((negb (barrier_cta p k =? cta_of p c) || false) && is_unpublished (mb_status h)) UnpublishedInit [c]) (fun _ =>
    bind (if negb (barrier_cta p k =? cta_of p c) || false then check_alive p s c (barrier_cta p k) else Done tt) (fun _ => Done h)))).
  { intros c r h E. unfold usable. now rewrite E. }
  rewrite (U a s held F), (U b s held F).
  destruct (is_absent (mb_status held)) eqn:A; [easy|]. cbn [guard bind].
  destruct ((negb (barrier_cta p k =? cta_of p a) || false) && is_unpublished (mb_status held)) eqn:Ea; [easy|]. cbn [guard bind].
  destruct ((negb (barrier_cta p k =? cta_of p b) || false) && is_unpublished (mb_status held)) eqn:Eb; [easy|]. cbn [guard bind].
  destruct (if negb (barrier_cta p k =? cta_of p a) || false then check_alive p s a (barrier_cta p k) else Done tt) eqn:La; try easy.
  destruct (if negb (barrier_cta p k =? cta_of p b) || false then check_alive p s b (barrier_cta p k) else Done tt) eqn:Lb; try easy.
  cbn [bind]. intros X Y.
  assert (N0 : 0 <= n /\ 0 <= m).
  { unfold count_down in X, Y. destruct (0 <=? n) eqn:Hn; [|easy]. destruct (0 <=? m) eqn:Hm; [|easy]. apply Z.leb_le in Hn, Hm. lia. }
  rewrite counted_below in X, Y by lia.
  destruct (negb ((0 <=? n) && (0 <=? mb_expected held))) eqn:X1; [easy|]. destruct (negb ((0 <=? m) && (0 <=? mb_expected held))) eqn:Y1; [easy|].
  cbn [guard bind] in X, Y.
  destruct (negb (n =? 0) && negb (mb_observed held) && negb (po_run_ahead (pr_policies p))) eqn:X2; [easy|].
  destruct (negb (m =? 0) && negb (mb_observed held) && negb (po_run_ahead (pr_policies p))) eqn:Y2; [easy|]. cbn [guard bind] in X, Y.
  destruct (transaction_max <? Z.abs (mb_transaction held + t)); [easy|]. destruct (transaction_max <? Z.abs (mb_transaction held + u)); [easy|].
  cbn [guard bind] in X, Y. injection X as <-. injection Y as <-.
  split; [eexists; cbn; apply find_put_same|]. split; [eexists; cbn; apply find_put_same|].
  rewrite (U b _ (counted held n t)) by (cbn; apply find_put_same). rewrite (U a _ (counted held m u)) by (cbn; apply find_put_same).
  assert (D : forall c h, ended p (put_barrier s k h) c = ended p s c) by easy.
  unfold check_alive in *. cbn [counted mb_status]. rewrite A, Ea, Eb, !D, La, Lb. cbn [guard bind].
  rewrite !counted_below by (cbn; lia). cbn [counted mb_expected mb_observed mb_transaction mb_pending].
  rewrite X1, Y1, X2, Y2. cbn [guard bind].
  replace (transaction_max <? Z.abs (mb_transaction held + t + u)) with false by (symmetry; apply Z.ltb_ge; lia).
  replace (transaction_max <? Z.abs (mb_transaction held + u + t)) with false by (symmetry; apply Z.ltb_ge; lia).
  cbn [guard bind]. eexists. split; [reflexivity|]. f_equal. unfold put_barrier, with_barriers. cbn. rewrite !put_over.
  do 2 f_equal. unfold counted. cbn. f_equal; lia.
Qed.

Lemma arrive_arrives s a env r k count bytes n t : key_of env r = Done k -> find same_key k (st_barriers s) <> None ->
  value env count = Done n -> value env bytes = Done t ->
  arrive p s a env r count bytes false false = arrives s a k n t.
Proof.
  intros K F N T. unfold arrive, arrives, declared. rewrite K. cbn [bind]. destruct (find same_key k (st_barriers s)); [|easy]. cbn [bind].
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [bind]. rewrite N, T. cbn [bind]. now destruct b.
Qed.

(** Arrivals of two agents that leave the phase open, and whose bytes stay within bounds, add up in either order. *)
Theorem arrivals_add s a b env env' r r' k count bytes count' bytes' n t m u x y held :
  key_of env r = Done k -> key_of env' r' = Done k -> find same_key k (st_barriers s) = Some held ->
  value env count = Done n -> value env bytes = Done t -> value env' count' = Done m -> value env' bytes' = Done u ->
  n + m < mb_pending held -> Z.abs (mb_transaction held + t + u) <= transaction_max ->
  arrive p s a env r count bytes false false = Done x -> arrive p s b env' r' count' bytes' false false = Done y ->
  exists z, arrive p x b env' r' count' bytes' false false = Done z /\ arrive p y a env r count bytes false false = Done z.
Proof.
  intros K K' F N T M U P Q X Y.
  rewrite (arrive_arrives s a env r k count bytes n t) in X by (easy || congruence).
  rewrite (arrive_arrives s b env' r' k count' bytes' m u) in Y by (easy || congruence).
  destruct (arrives_add s a b k n t m u x y held F P Q X Y) as ((h & Hx) & (g & Hy) & z & A & B). exists z.
  rewrite (arrive_arrives x b env' r' k count' bytes' m u), (arrive_arrives y a env r k count bytes n t); try easy; congruence.
Qed.
End Sums.
