(** What is possible stays possible behind an independent step. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames SyncParts SyncActs SyncIndependent.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Possible.
Variable p : program.

(** ** The possible steps *)

Definition queue_steps (q : nat) (d : queue) (g : groups) : list step_ :=
  let fs := concat (gr_closed g) ++ released (gr_open g) in
  let split := split_reads p q in
  let first := if qu_ordered d then firstn 1 fs else fs in
  let reading := if split then firstn 1 (filter fl_reading fs) else [] in
  map (fun f => engine_step_of f split) (first ++ reading).

(** Whether a step is possible, without the order in which [steps] lists them. *)
Definition possible (s : state) (y : step_) : Prop :=
  match y with
  | AgentStep b => (b < length (st_positions s))%nat /\ enabled p s b = Done true
  | _ => In y (map (fun f => engine_step_of f false) (st_free s)) \/
         exists o q g d, In ((o, q), g) (st_queues s) /\ queue_decl p q = Done d /\ In y (queue_steps q d g)
  end.

Lemma order_same x y : order x y = Datatypes.Eq -> x = y.
Proof.
  unfold order, rank. destruct x as [a|a n|a n], y as [b|b m|b m]; cbn; try easy;
    destruct (Z.compare_spec (Z.of_nat a) (Z.of_nat b)) as [E| |]; try easy; try (destruct (Z.compare_spec n m) as [->| |]; try easy);
    intros _; f_equal; lia.
Qed.
Lemma in_insert y x l : In y (insert x l) <-> y = x \/ In y l.
Proof.
  induction l as [|z l IH]; cbn; [intuition congruence|]. destruct (order x z) eqn:O; cbn.
  - apply order_same in O as ->. intuition congruence.
  - intuition congruence.
  - rewrite IH. intuition congruence.
Qed.
Lemma in_inserted y l : In y (fold_right insert [] l) <-> In y l.
Proof. induction l as [|x l IH]; cbn; [easy|]. rewrite in_insert, IH. intuition congruence. Qed.

Lemma each_in {A B} (f : A -> outcome B) l m : each f l = Done m -> forall x, In x l -> exists y, f x = Done y /\ In y m.
Proof.
  revert m. induction l as [|a l IH]; intros m; cbn; [easy|]. destruct (f a) as [b| |] eqn:F; cbn; [|easy..].
  destruct (each f l) as [n| |]; cbn; [|easy..]. intros [= <-] x [<-|I]; [exists b; split; [easy|now left]|].
  destruct (IH n eq_refl x I) as (y & Y & J). exists y. split; [easy|now right].
Qed.

Lemma in_numbered {A} (l : list A) n x : nth_error l n = Some x -> In (n, x) (numbered l).
Proof.
  unfold numbered. enough (H : forall k n, nth_error l n = Some x -> In ((k + n)%nat, x) (combine (seq k (length l)) l)) by apply (H O n).
  clear n. induction l as [|a l IH]; intros k [|n]; cbn; try easy.
  - intros [= ->]. left. f_equal. lia.
  - intros H. right. replace (k + S n)%nat with (S k + n)%nat by lia. now apply IH.
Qed.

(** What is possible is among the steps of [Sync.v]. *)
Theorem possible_listed s l y : steps p s = Done l -> possible s y -> In y l.
Proof.
  unfold steps. destruct (each _ (numbered (st_positions s))) as [own| |] eqn:O; cbn [bind]; [|easy..].
  destruct (engine_steps p s) as [others| |] eqn:E; cbn [bind]; [|easy..]. intros [= <-] P. apply in_inserted, in_or_app.
  assert (Q : forall z, In z (map (fun f => engine_step_of f false) (st_free s)) \/
    (exists o q g d, In ((o, q), g) (st_queues s) /\ queue_decl p q = Done d /\ In z (queue_steps q d g)) -> In z others).
  { intros z H. unfold engine_steps in E. destruct (each _ (st_queues s)) as [found| |] eqn:F; cbn [bind] in E; [|easy..]. injection E as <-.
    apply in_or_app. destruct H as [H|(o & q & g & d & I & D & H)]; [now left|right].
    destruct (each_in _ _ _ F _ I) as (m & M & J). rewrite D in M. cbn [bind] in M. injection M as <-. apply in_concat. exists (queue_steps q d g). now split. }
  destruct y as [b|a n|a n]; cbn [possible] in P; [left|right; now apply Q|right; now apply Q].
  destruct P as [L P]. destruct (nth_error (st_positions s) b) as [x|] eqn:X; [|apply nth_error_None in X; lia].
  destruct (each_in _ _ _ O _ (in_numbered _ b x X)) as (m & M & J). rewrite P in M. cbn [bind] in M. injection M as <-.
  apply in_concat. exists [AgentStep b]. split; [easy|now left].
Qed.

(** ** What possibility asks of a state *)

Definition ask : Type := loc * (part -> bool).

Definition operation_asks (s : state) (b : nat) (env : nat -> Z) (o : operation) : option (list ask) :=
  match o with
  | Wait r parity _ =>
    match key_of env r, value env parity with
    | Done k, Done v => Some [(AtBarrier k, fun x => match x with
        | PBarrier (Some h) => is_absent (mb_status h) || negb (mb_phase h mod 2 =? v mod 2) | PBarrier None => true | _ => false end)]
    | _, _ => None
    end
  | TokenWait r =>
    match key_of env r with
    | Done k => Some [(AtBarrier k, fun x => match x with
        | PBarrier (Some h) => is_absent (mb_status h) || negb (inside (Z.of_nat b) (mb_tokens h)) | PBarrier None => true | _ => false end)]
    | _ => None
    end
  | QueueWait q pending reads =>
    match queue_decl p q, value env pending with
    | Done d, Done n => Some [(AtQueue (b, q), fun x => match x with PQueue (Some g) => outstanding d g reads <=? n | _ => false end)]
    | _, _ => None
    end
  | BarrierWait r =>
    match key_of env r with
    | Done k => Some [(AtNamed k, fun x => match x with PNamed (Some n) => negb (inside (Z.of_nat b) (na_arrived n)) | PNamed None => true | _ => false end)]
    | _ => None
    end
  | BarrierSync _ _ =>
    if once (map fst (st_named s)) then
      Some (map (fun k => (AtNamed k, fun x => match x with PNamed (Some n) => negb (inside (Z.of_nat b) (na_waiting n)) | _ => false end)) (map fst (st_named s)))
    else None
  | PoolTake pool amount =>
    match value env amount with
    | Done n => Some [(AtPool pool, fun x => match x with PNumber (Some free) => n <=? free | _ => false end)]
    | _ => None
    end
  | _ => Some []
  end.

Definition one_step (x y : step_) : bool := match order x y with Datatypes.Eq => true | _ => false end.

(** Locations that have to stay as they are, and what others have to hold. *)
Definition asks_of (s : state) (y : step_) : option (list loc * list ask) :=
  let in_flight a n :=
    match where_ a n s with
    | Some (o, q) =>
      match queue_decl p q with
      | Done d => Some ([], [(AtQueue (o, q), fun x => match x with PQueue (Some g) => existsb (one_step y) (queue_steps q d g) | _ => false end)])
      | _ => None
      end
    | None => None
    end in
  match y with
  | AgentStep b =>
    match nth_error (st_positions s) b, env_of p s b with
    | Some q, Done env =>
      match op_of p q with
      | Some o => match operation_asks s b env o with Some l => Some ([AtPlace b], l) | None => None end
      | None => None
      end
    | _, _ => None
    end
  | FinishStep a n =>
    match List.find (is_mark a n) (st_free s) with
    | Some _ => Some ([], [(AtFlight a n, fun x => match x with PFlights l => negb (is_empty l) | _ => false end)])
    | None => in_flight a n
    end
  | ReadsStep a n => in_flight a n
  end.

(** Whether [y] is possible behind [x]. *)
Definition stays (s : state) (x y : step_) : bool :=
  match footprint p s x, asks_of s y with
  | Some (_, W, A), Some (sees, asks) =>
    disjoint sees W && forallb (fun '(l, r) => speaks (r (part_at l s))) A &&
    forallb (fun '(l, test) => own l && if in_list l W
      then existsb (fun '(h, r) => (if loc_dec h l then true else false) && match r (part_at l s) with Some (Done w) => test w | _ => false end) A
      else test (part_at l s)) asks
  | _, _ => false
  end.

Definition holds_all (t : state) (asks : list ask) : Prop := forall l test, In (l, test) asks -> test (part_at l t) = true.

Lemma asked_agent t b env q o l : nth_error (st_positions t) b = Some q -> env_of p t b = Done env -> op_of p q = Some o ->
  (exists s, map fst (st_named s) = map fst (st_named t) /\ operation_asks s b env o = Some l) -> holds_all t l -> enabled p t b = Done true.
Proof.
  intros Q E O (s & K & A) H. unfold enabled. rewrite Q. cbn [got bind]. rewrite E. cbn [bind]. rewrite O.
  destruct o; cbn [operation_asks] in A; try easy.
  - destruct (value env pending) as [n| |] eqn:V; destruct (queue_decl p queue) as [d| |] eqn:D; try easy. injection A as <-. cbn [bind].
    specialize (H _ _ (or_introl eq_refl)). cbn in H. destruct (find same_pair (b, queue) (st_queues t)) as [g|]; [|easy]. cbn. now rewrite H.
  - destruct (key_of env barrier) as [k| |] eqn:Kk; try easy. destruct (value env parity) as [v| |] eqn:V; try easy. injection A as <-. cbn [bind].
    specialize (H _ _ (or_introl eq_refl)). cbn in H. destruct (find same_key k (st_barriers t)) as [h|]; [|easy].
    destruct (is_absent (mb_status h)); [easy|]. cbn in H. now rewrite H.
  - destruct (key_of env barrier) as [k| |] eqn:Kk; try easy. injection A as <-. cbn [bind].
    specialize (H _ _ (or_introl eq_refl)). cbn in H. destruct (find same_key k (st_barriers t)) as [h|]; [|easy]. now rewrite H.
  - destruct (once (map fst (st_named s))) eqn:On; [|easy]. injection A as <-. f_equal. apply negb_true_iff.
    destruct (existsb _ (st_named t)) eqn:X; [|easy]. exfalso. apply existsb_exists in X as ([k n] & I & X). cbn in X.
    assert (F : find same_key k (st_named t) = Some n).
    { rewrite K in On. clear - On I. induction (st_named t) as [|[h m] l IH]; [easy|]. cbn in On. apply andb_true_iff in On as [O1 O2].
      destruct I as [[= -> ->]|I]; cbn; [now rewrite same_key_refl|]. destruct (same_key k h) eqn:S; [|now apply IH].
      apply same_key_eq in S. subst h. apply negb_true_iff in O1. assert (Y : existsb (same_key k) (map fst l) = true); [|congruence].
      apply existsb_exists. exists k. split; [now apply (in_map fst l (k, n))|apply same_key_refl]. }
    assert (J : In k (map fst (st_named s))) by (rewrite K; now apply (in_map fst _ (k, n))).
    specialize (H (AtNamed k) (fun x => match x with PNamed (Some n) => negb (inside (Z.of_nat b) (na_waiting n)) | _ => false end)).
    cbn in H. rewrite F, X in H. discriminate H. apply in_map_iff. now exists k.
  - destruct (key_of env barrier) as [k| |] eqn:Kk; try easy. injection A as <-. cbn [bind].
    specialize (H _ _ (or_introl eq_refl)). cbn in H. destruct (find same_key k (st_named t)) as [n|]; [now rewrite H|easy].
  - destruct (value env amount) as [n| |] eqn:V; try easy. injection A as <-.
    specialize (H _ _ (or_introl eq_refl)). cbn in H. destruct (nth_error (st_pools t) pool) as [free|]; [|easy]. cbn. now rewrite H.
Qed.

(** A step that the table says to stay possible is possible behind the other. *)
Theorem independent_possible s x y t : stays s x y = true -> body p s x = Done t -> possible t y.
Proof.
  unfold stays. destruct (footprint p s x) as [[[R W] A]|] eqn:X; [|easy]. destruct (asks_of s y) as [[sees asks]|] eqn:Y; [|easy].
  rewrite !andb_true_iff, !forallb_forall. intros [[D S] H] T.
  destruct (footprint_acting p s x R W A X) as [HX OX].
  assert (M : forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l s))).
  { intros l r I. specialize (S _ I). cbn in S. unfold speaks in S. destruct (r (part_at l s)) as [[]|]; now cbn. }
  destruct (matched_here p A s M R (filter own R) W (fun t => body p t x) t HX T) as [V P].
  assert (Q : holds_all t asks).
  { intros l test I. specialize (H _ I). cbn in H. apply andb_true_iff in H as [O H]. destruct (in_list l W) eqn:L.
    - apply existsb_exists in H as ([h r] & J & H). apply andb_true_iff in H as [E H]. destruct (loc_dec h l) as [->|]; [|easy].
      now rewrite (P l r J) in H.
    - rewrite (moved_part p W l s t (moved_is_own p W s t V) O); [easy|]. intros K. apply listed_in in K. congruence. }
  assert (F : forall a n, match where_ a n s with
    | Some (o, q) => match queue_decl p q with
      | Done d => Some ([], [(AtQueue (o, q), fun x => match x with PQueue (Some g) => existsb (one_step y) (queue_steps q d g) | _ => false end)])
      | _ => None end
    | None => None end = Some (sees, asks) ->
    exists o q g d, In ((o, q), g) (st_queues t) /\ queue_decl p q = Done d /\ In y (queue_steps q d g)).
  { intros a n E. destruct (where_ a n s) as [[o q]|]; [|easy]. destruct (queue_decl p q) as [d| |] eqn:QD; try easy. injection E as <- <-.
    specialize (Q _ _ (or_introl eq_refl)). cbn [part_at] in Q. destruct (find same_pair (o, q) (st_queues t)) as [g|] eqn:G; [|easy].
    exists o, q, g, d. split; [|split; [easy|]].
    - clear - G. induction (st_queues t) as [|[h v] l IH]; cbn in G; [easy|]. destruct (same_pair (o, q) h) eqn:E; [|right; now apply IH].
      apply same_pair_eq in E. subst h. injection G as ->. now left.
    - apply existsb_exists in Q as (z & Z & Q). unfold one_step in Q. destruct (order y z) eqn:Or; try easy. now apply order_same in Or as ->. }
  destruct y as [b|a n|a n]; cbn [asks_of] in Y; cbn [possible].
  - destruct (nth_error (st_positions s) b) as [q|] eqn:B; [|easy]. destruct (env_of p s b) as [env| |] eqn:E; try easy.
    destruct (op_of p q) as [o|] eqn:O; [|easy]. destruct (operation_asks s b env o) as [l|] eqn:L; [|easy]. injection Y as <- <-.
    assert (N : ~ In (AtPlace b) W).
    { intros K. apply disjoint_apart in D. apply (D (AtPlace b)); [now left|easy]. }
    assert (B' : nth_error (st_positions t) b = Some q) by (rewrite <- B; symmetry; apply (proj2 V _ N)).
    split; [apply nth_error_Some; congruence|]. apply (asked_agent t b env q o l); try easy.
    + unfold env_of in *. now rewrite B', <- B.
    + exists s. split; [|easy]. now destruct V as [(_ & _ & _ & K & _) _].
  - destruct (List.find (is_mark a n) (st_free s)) as [f|] eqn:G; [|right; now apply (F a n)]. injection Y as <- <-. left.
    specialize (Q _ _ (or_introl eq_refl)). cbn in Q. destruct (filter (is_mark a n) (st_free t)) as [|g l] eqn:Fl; [easy|].
    assert (J : In g (filter (is_mark a n) (st_free t))) by (rewrite Fl; now left). apply filter_In in J as [J K].
    unfold is_mark in K. apply andb_true_iff in K as [K1 K2]. apply Nat.eqb_eq in K1. apply Z.eqb_eq in K2.
    apply in_map_iff. exists g. split; [|easy]. unfold engine_step_of. cbn. now rewrite K1, K2.
  - right. now apply (F a n).
Qed.
End Possible.
