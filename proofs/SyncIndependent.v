(** The table of commutation: which steps of sync programs are independent, proved of Sync.v.

    [footprint] lists what a step sees and changes, from the state and the operation alone; [independent] is the
    table: neither changes what the other sees. Then the steps lead in either order to the
    same state ([independent_commute]), and neither hides a fault of the other ([independent_fault]). It is extracted, and
    held against the single steps that the checker of certificates takes for all (tests/proofs/test_commutation.py). *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames.
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

(** ** The table *)

(** What a step does, without the checks behind it: of the end of CTAs, and of waits that are lapped. *)
Definition body (s : state) (x : step_) : outcome state :=
  match x with
  | AgentStep a => execute p s a
  | FinishStep a n => engine_step p s a n false
  | ReadsStep a n => engine_step p s a n true
  end.

Definition lets_others_go (s : state) (a : nat) (env : nat -> Z) (k : key) (threads : expression) : bool :=
  match find same_key k (st_named s), agent_of p a, value env threads with
  | Some n, Done g, Done all => negb (is_empty (na_waiting n)) && (all <=? na_arrived_threads n + ag_threads g)
  | _, _, _ => true
  end.

Definition at_key (env : nat -> Z) (r : reference) (f : key -> option (list loc * list loc)) :=
  match key_of env r with Done k => f k | _ => None end.

(** What an operation sees and changes beside the place of its agent; None: the table says nothing of it. *)
Definition operation_footprint (s : state) (a : nat) (env : nat -> Z) (o : operation) : option (list loc * list loc) :=
  match o with
  | Access effects =>
    match resolved p s a env effects with
    | Done l => if plain_effects p l
                then Some (alive_list p a effects ++ over_cells (seen_by a) l, over_cells (changed_by a) l) else None
    | _ => None
    end
  | Asynchronous _ effects q _ _ =>
    match parts_of p s a env effects, nth_error (st_issued s) a with
    | Done l, Some n =>
      if issue_plain p l then
        let lane := match q with None => [AtFlight a n] | Some q => [AtQueue (a, q); AtWhere a n] end in
        Some (AtIssued a :: alive_list p a effects ++ issue_seen l ++ filter own lane,
              AtIssued a :: lane ++ map (fun w => AtTouch (fa_cell w)) (concat l))
      else None
    | _, _ => None
    end
  | Commit q => Some ([AtQueue (a, q)], [AtQueue (a, q)])
  | QueueWait _ _ _ => Some ([], [])
  | QueueArrive _ q _ _ =>
    match nth_error (st_issued s) a with
    | Some n => Some ([AtIssued a; AtQueue (a, q)], [AtIssued a; AtQueue (a, q); AtWhere a n])
    | None => None
    end
  | Arrive r _ _ _ _ | ExpectTransaction r _ | Wait r _ _ | TokenWait r =>
    at_key env r (fun k => Some (AtBarrier k :: far p a k false, [AtBarrier k]))
  | BarrierSync r threads | BarrierArrive r threads =>
    at_key env r (fun k => if lets_others_go s a env k threads then None else Some ([AtNamed k], [AtNamed k]))
  | BarrierWait r => at_key env r (fun k => Some ([AtNamed k], [AtNamed k]))
  | Fence kind spaces =>
    let W := flat_map (fence_changed a) (fence_cells p a kind spaces) in
    if simple_fence kind && negb (po_path (pr_policies p)) then Some (filter own W, W) else None
  | PoolTake n _ | PoolGive n _ => Some ([AtPool n], [AtPool n])
  | _ => None
  end.

Definition engine_footprint (s : state) (a : nat) (n : Z) (early : bool) : option (list loc * list loc) :=
  match List.find (is_mark a n) (st_free s) with
  | Some f =>
    if flight_plain p f then
      Some (AtFlight a n :: effect_seen p f early,
            AtFlight a n :: effect_changed f early ++ flat_map touched_cells (filter (is_mark a n) (st_free s)))
    else None
  | None =>
    match where_ a n s with
    | Some (owner, q) =>
      match queue_decl p q, find same_pair (owner, q) (st_queues s) with
      | Done _, Some g =>
        match List.find (is_mark a n) (contents g) with
        | Some f =>
          if flight_plain p f && distinct (map fst (st_queues s)) then
            Some (AtFlight a n :: AtWhere a n :: AtQueue (owner, q) :: effect_seen p f early,
                  queue_changed a n (owner, q) g ++ effect_changed f early)
          else None
        | None => None
        end
      | _, _ => None
      end
    | None => None
    end
  end.

Definition footprint (s : state) (x : step_) : option (list loc * list loc) :=
  match x with
  | AgentStep a =>
    match nth_error (st_positions s) a, env_of p s a with
    | Some q, Done env =>
      match op_of p q with
      | Some o =>
        match operation_footprint s a env o with
        | Some (R, W) => Some (AtPlace a :: R, AtPlace a :: end_of p s a ++ W)
        | None => None
        end
      | None => None
      end
    | _, _ => None
    end
  | FinishStep a n => engine_footprint s a n false
  | ReadsStep a n => engine_footprint s a n true
  end.

Definition listed (l : loc) (m : list loc) : bool := if in_dec loc_dec l m then true else false.
Definition disjoint (W R : list loc) : bool := forallb (fun l => negb (listed l R)) W.
Definition seen_too (R W : list loc) : bool := forallb (fun l => negb (own l) || listed l R) W.

(** The table: two steps that may be done in either order. *)
Definition independent (s : state) (x y : step_) : bool :=
  match footprint s x, footprint s y with
  | Some (R, W), Some (R', W') => seen_too R W && seen_too R' W' && disjoint W R' && disjoint W' R
  | _, _ => false
  end.

(** *** It is right *)

Lemma frame_place R F W s a env o q (run : (nat -> Z) -> operation -> state -> outcome state) :
  nth_error (st_positions s) a = Some q -> env_of p s a = Done env -> op_of p q = Some o -> In (AtPlace a) R ->
  frame R F W s (run env o) ->
  frame R F W s (fun t => let* q := got (nth_error (st_positions t) a) in let* env := env_of p t a in
    let* o := got (op_of p q) in run env o t).
Proof.
  intros Q E O I H t N. assert (P : nth_error (st_positions s) a = nth_error (st_positions t) a) by apply (proj2 N _ I).
  assert (V : env_of p t a = env_of p s a) by (unfold env_of; now rewrite P).
  rewrite V, <- P, Q, E. cbn [got bind]. rewrite O. cbn [got bind]. now apply H.
Qed.

Lemma no_place_over a l : ~ In (AtPlace a) (over_cells (changed_by a) l).
Proof.
  intros I. apply in_flat_map in I as (x & _ & I). apply in_flat_map in I as (c & _ & I).
  unfold changed_by in I. destruct (ef_write (fst x)); cbn in I; intuition discriminate.
Qed.

Lemma frame_operation R W s a env o : operation_footprint s a env o = Some (R, W) ->
  nth_error (st_positions s) a <> None -> env_of p s a = Done env ->
  (forall q, nth_error (st_positions s) a = Some q -> op_of p q = Some o) ->
  frame (AtPlace a :: R) (filter own (AtPlace a :: R)) (AtPlace a :: end_of p s a ++ W) s (fun t => execute p t a).
Proof.
  intros H Q0 E OQ. destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. specialize (OQ q eq_refl). clear Q0.
  set (R' := AtPlace a :: R) in *. assert (PR : In (AtPlace a) R') by now left.
  assert (IR : incl R R') by (intros l L; now right).
  unfold execute.
  apply (frame_place R' (filter own R') _ s a env o q (fun env o t =>
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
    end)); try easy. cbv zeta beta.
  assert (PL : forall f, frame R' R' W s f -> ~ In (AtPlace a) W ->
    frame R' (filter own R') (AtPlace a :: end_of p s a ++ W) s (fun t => bind (f t) (fun t => advance p t a))).
  { intros f Hf N. apply (frame_goes_on p R' W); try easy. now apply frame_after with R'; [apply own_less|]. }
  assert (PO : forall f, frame R' (filter own R') W s f -> ~ In (AtPlace a) W ->
    frame R' (filter own R') (AtPlace a :: end_of p s a ++ W) s (fun t => bind (f t) (fun t => advance p t a))).
  { intros f Hf N. now apply (frame_goes_on p R' W). }
  destruct o; cbn [operation_footprint] in H; unfold at_key in H; try easy.
  - destruct (resolved p s a env effects) as [l| |] eqn:L; try easy. destruct (plain_effects p l) eqn:P; [|easy]. injection H as <- <-.
    apply PL; [|apply no_place_over]. apply (frame_access p R' _ s a env effects l); try easy;
      intros x X; apply IR, in_or_app; [now left|now right].
  - destruct (parts_of p s a env effects) as [l| |] eqn:L; try easy. destruct (nth_error (st_issued s) a) as [n|] eqn:N; [|easy].
    destruct (issue_plain p l) eqn:P; [|easy]. injection H as <- <-. apply PO.
    + apply (frame_issue p R' _ s a env site effects queue completes chunks l n); try easy.
      * intros x X. apply IR. right. apply in_or_app. now left.
      * intros x X. apply IR. right. apply in_or_app. right. apply in_or_app. now left.
      * apply IR. now left.
      * now left.
      * intros f <- <-. split; intros x X.
        -- apply IR. right. apply in_or_app. right. apply in_or_app. right. now destruct queue.
        -- right. apply in_or_app. left. now destruct queue.
      * intros x X. right. apply in_or_app. now right.
    + intros [X|X]; [easy|]. apply in_app_or in X as [X|X].
      * destruct queue; cbn in X; intuition discriminate.
      * apply in_map_iff in X as (w & X & _). discriminate.
  - injection H as <- <-. apply PO; [apply frame_commit; [apply IR; now left|now left]|now intros [|[]]].
  - injection H as <- <-. apply frame_advance; [now left|now left|]. intros l L. right. apply in_or_app. now left.
  - destruct (nth_error (st_issued s) a) as [n|] eqn:N; [|easy]. injection H as <- <-. apply PO.
    + apply frame_queue_arrive with n; try easy; try (apply IR; cbn; tauto); cbn; tauto.
    + cbn. intuition discriminate.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as <- <-. apply PL; [|now intros [|[]]].
    apply frame_arrive with k; try easy; try (apply IR; now left); [now left|]. intros l L. apply IR. now right.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as <- <-. apply PL; [|now intros [|[]]].
    apply frame_expect with k; try easy; try (apply IR; now left); [now left|]. intros l L. apply IR. now right.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as <- <-. apply PL; [|now intros [|[]]].
    apply frame_wait with k; try easy; try (apply IR; now left); [now left|]. intros l L. apply IR. now right.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as <- <-. apply PL; [|now intros [|[]]].
    apply frame_token_wait with k; try easy; try (apply IR; now left); [now left|]. intros l L. apply IR. now right.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. destruct (lets_others_go s a env k threads) eqn:G; [easy|]. injection H as <- <-.
    unfold lets_others_go in G. destruct (find same_key k (st_named s)) as [n|] eqn:F; [|easy].
    apply (frame_same p R' _ _ s (fun t => bind (meet p t a env barrier threads true) (fun x => if snd x then advance p (fst x) a else Done (fst x)))).
    { intros t. now destruct (meet p t a env barrier threads true) as [[u on]| |]. }
    apply frame_meet with k n; try easy.
    + destruct (agent_of p a) as [g| |]; try easy. destruct (value env threads) as [all| |]; try easy. apply andb_false_iff in G as [G|G].
      * left. destruct (na_waiting n); easy.
      * right. intros g' all' [= <-] [= <-]. apply Z.leb_gt in G. lia.
    + apply IR. now left.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. destruct (lets_others_go s a env k threads) eqn:G; [easy|]. injection H as <- <-.
    unfold lets_others_go in G. destruct (find same_key k (st_named s)) as [n|] eqn:F; [|easy].
    apply (frame_same p R' _ _ s (fun t => bind (meet p t a env barrier threads false) (fun x => if snd x then advance p (fst x) a else Done (fst x)))).
    { intros t. now destruct (meet p t a env barrier threads false) as [[u on]| |]. }
    apply frame_meet with k n; try easy.
    + destruct (agent_of p a) as [g| |]; try easy. destruct (value env threads) as [all| |]; try easy. apply andb_false_iff in G as [G|G].
      * left. destruct (na_waiting n); easy.
      * right. intros g' all' [= <-] [= <-]. apply Z.leb_gt in G. lia.
    + apply IR. now left.
  - destruct (key_of env barrier) as [k| |] eqn:K; try easy. injection H as <- <-. apply PL; [|now intros [|[]]].
    apply frame_named_wait with k; try easy; [apply IR; now left|now left].
  - destruct (simple_fence kind) eqn:S; [|easy]. destruct (po_path (pr_policies p)) eqn:P; [easy|]. injection H as <- <-.
    apply PL; [now apply frame_fence|]. intros X. apply in_flat_map in X as (c & _ & X). cbn in X. intuition discriminate.
  - injection H as <- <-. apply frame_pure. intros n _.
    apply (frame_read p R' _ _ s (fun t => got (nth_error (st_pools t) pool))).
    { intros t [_ X]. now rewrite <- (X _ (IR _ (or_introl eq_refl)) : nth_error (st_pools s) pool = _). }
    intros v V. apply (PL (fun t => Done (with_pools (set_nth pool (v - n) (st_pools t)) t))); [|now intros [|[]]].
    apply frame_put_pool; [now left|apply IR; now left|]. now destruct (nth_error (st_pools s) pool).
  - injection H as <- <-. apply frame_pure. intros n _.
    apply (frame_read p R' _ _ s (fun t => got (nth_error (st_pools t) pool))).
    { intros t [_ X]. now rewrite <- (X _ (IR _ (or_introl eq_refl)) : nth_error (st_pools s) pool = _). }
    intros v V. apply (PL (fun t => Done (with_pools (set_nth pool (v + n) (st_pools t)) t))); [|now intros [|[]]].
    apply frame_put_pool; [now left|apply IR; now left|]. now destruct (nth_error (st_pools s) pool).
Qed.

Lemma frame_engine R W s a n early : engine_footprint s a n early = Some (R, W) ->
  frame R (filter own R) W s (fun t => engine_step p t a n early).
Proof.
  unfold engine_footprint. destruct (List.find (is_mark a n) (st_free s)) as [f|] eqn:F.
  - destruct (flight_plain p f) eqn:P; [|easy]. intros [= <- <-]. apply frame_engine_free with f; try easy; try (now left).
    + intros l L. right. apply in_or_app. now left.
    + intros l L. now right.
    + intros l L. right. apply in_or_app. now right.
  - destruct (where_ a n s) as [[owner q]|] eqn:Wh; [|easy]. destruct (queue_decl p q) as [d| |] eqn:QD; try easy.
    destruct (find same_pair (owner, q) (st_queues s)) as [g|] eqn:G; [|easy].
    destruct (List.find (is_mark a n) (contents g)) as [f|] eqn:M; [|easy].
    destruct (flight_plain p f && distinct (map fst (st_queues s))) eqn:P; [|easy]. apply andb_true_iff in P as [P D]. intros [= <- <-].
    apply frame_engine_queue with owner q d g f; try easy; try (cbn; tauto).
    + intros l L. change (In l (queue_changed a n (owner, q) g ++ effect_changed f early)). apply in_or_app. now left.
    + intros l L. change (In l (queue_changed a n (owner, q) g ++ effect_changed f early)). apply in_or_app. now right.
    + intros l L. right. right. now right.
Qed.

(** A step sees no more of a state than its footprint lists, and changes no more. *)
Theorem footprint_frame s x R W : footprint s x = Some (R, W) -> frame R (filter own R) W s (fun t => body t x).
Proof.
  destruct x as [a|a n|a n]; cbn [footprint body]; [|apply frame_engine..].
  destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. destruct (env_of p s a) as [env| |] eqn:E; try easy.
  destruct (op_of p q) as [o|] eqn:O; [|easy]. destruct (operation_footprint s a env o) as [[R' W']|] eqn:H; [|easy].
  intros [= <- <-]. apply frame_operation with env o; try easy; [congruence|]. intros r X. congruence.
Qed.

Lemma disjoint_apart W R : disjoint W R = true -> apart W R.
Proof.
  unfold disjoint, listed. rewrite forallb_forall. intros H l L I. specialize (H l L). now destruct (in_dec loc_dec l R).
Qed.
Lemma seen_covered R W : seen_too R W = true -> covered W (filter own R).
Proof.
  unfold seen_too, listed. rewrite forallb_forall. intros H l L O. specialize (H l L). rewrite O in H.
  apply filter_In. split; [|easy]. now destruct (in_dec loc_dec l R).
Qed.

(** Independent steps lead to one state in either order, *)
Theorem independent_commute s x y t u : independent s x y = true -> body s x = Done t -> body s y = Done u ->
  exists v w, body t y = Done v /\ body u x = Done w /\ alike p v w.
Proof.
  unfold independent. destruct (footprint s x) as [[R W]|] eqn:X; [|easy]. destruct (footprint s y) as [[R' W']|] eqn:Y; [|easy].
  rewrite !andb_true_iff. intros [[[A B] C] D].
  apply (apart_commute p R (filter own R) W R' (filter own R') W' s t u (fun t => body t x) (fun t => body t y));
    try (now apply footprint_frame); try (now apply seen_covered); try apply own_less; now apply disjoint_apart.
Qed.

(** and a fault of one is the same fault behind the other. *)
Theorem independent_fault s x y t k l : independent s x y = true -> body s x = Done t -> body s y = Faulty k l ->
  body t y = Faulty k l.
Proof.
  unfold independent. destruct (footprint s x) as [[R W]|] eqn:X; [|easy]. destruct (footprint s y) as [[R' W']|] eqn:Y; [|easy].
  rewrite !andb_true_iff. intros [[[A B] C] D].
  apply (apart_fault p R (filter own R) W R' (filter own R') W' s t (fun t => body t x) (fun t => body t y));
    try (now apply footprint_frame); now apply disjoint_apart.
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

Lemma put_twice {V} k (v w : V) l : put same_key k v (put same_key k w l) = put same_key k v l.
Proof.
  induction l as [|[h x] l IH]; cbn; [now rewrite same_key_refl|]. destruct (same_key k h) eqn:E; cbn; [now rewrite same_key_refl|].
  now rewrite E, IH.
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
  cbn [guard bind]. eexists. split; [reflexivity|]. f_equal. unfold put_barrier, with_barriers. cbn. rewrite !put_twice.
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
