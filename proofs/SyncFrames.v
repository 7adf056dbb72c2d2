(** What a step sees of a state and what it changes, by locations, proved of Sync.v.

    Two steps of which neither changes what the other sees lead, in either order,
    to one state, and neither hides a fault of the other (SyncParts.v). Locations are as fine as the
    table needs them: who has read a cell is a location of its own for each reader, what is in flight at a cell is
    one, and whether a CTA has ended. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Table.
Variable p : program.

(** ** Locations *)

Inductive loc :=
| AtPlace (a : nat) | AtIssued (a : nat) | AtBarrier (k : key) | AtNamed (k : key)
| AtContent (c : cell) | AtMarks (c : cell) | AtWriter (c : cell) (n : Z) | AtReader (c : cell) (n : Z)
| AtQueue (k : nat * nat) | AtFlight (a : nat) (n : Z) | AtPool (n : nat)
| AtWriters (c : cell) | AtReaders (c : cell)   (* of the others, and seen as a whole *)
| AtTouch (c : cell) | AtWrites (c : cell) | AtWhere (a : nat) (n : Z) | AtEnded (cta : Z).

Definition loc_dec (x y : loc) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

(** The locations that make up a state; the others follow from these. *)
Definition own (l : loc) : bool :=
  match l with AtWriters _ | AtReaders _ | AtTouch _ | AtWrites _ | AtWhere _ _ | AtEnded _ => false | _ => true end.

Definition core (h : content) := (co_tile h, co_authors h, co_released h).

(** What the operations in flight do at a cell: who issued it, to which queue, and the access. *)
Definition bare (f : flight) : flight :=
  Flight (fl_agent f) 0 O [] [] (fl_reading f) 0 0 false (fl_queue f).
Definition touches (c : cell) (f : flight) : list (flight * flight_access) :=
  map (pair (bare f))
    (filter (fun w => same_key (fa_cell w) c && (fa_write w || fl_reading f)) (fl_accesses f)).
(** What of it writes: all that a read has to know. *)
Definition writes_of (c : cell) (f : flight) : list (flight * flight_access) :=
  map (pair (with_reading (bare f) false 0)) (filter (fun w => same_key (fa_cell w) c && fa_write w) (fl_accesses f)).

Definition holds_mark (a : nat) (n : Z) (e : nat * nat * groups) : bool :=
  existsb (is_mark a n) (concat (gr_closed (snd e)) ++ gr_open (snd e)).
Definition where_ (a : nat) (n : Z) (s : state) : option (nat * nat) :=
  option_map fst (List.find (holds_mark a n) (st_queues s)).

Definition agree (l : loc) (s t : state) : Prop :=
  match l with
  | AtPlace a => nth_error (st_positions s) a = nth_error (st_positions t) a
  | AtIssued a => nth_error (st_issued s) a = nth_error (st_issued t) a
  | AtBarrier k => find same_key k (st_barriers s) = find same_key k (st_barriers t)
  | AtNamed k => find same_key k (st_named s) = find same_key k (st_named t)
  | AtContent c => option_map core (find same_key c (st_cells s)) = option_map core (find same_key c (st_cells t))
  | AtWriter c n => option_map (fun h => inside n (co_writers h)) (find same_key c (st_cells s)) =
      option_map (fun h => inside n (co_writers h)) (find same_key c (st_cells t))
  | AtReader c n => option_map (fun h => inside n (co_readers h)) (find same_key c (st_cells s)) =
      option_map (fun h => inside n (co_readers h)) (find same_key c (st_cells t))
  | AtWriters c => option_map co_writers (find same_key c (st_cells s)) = option_map co_writers (find same_key c (st_cells t))
  | AtReaders c => option_map co_readers (find same_key c (st_cells s)) = option_map co_readers (find same_key c (st_cells t))
  | AtQueue k => find same_pair k (st_queues s) = find same_pair k (st_queues t)
  | AtFlight a n => filter (is_mark a n) (st_free s) = filter (is_mark a n) (st_free t)
  | AtPool n => nth_error (st_pools s) n = nth_error (st_pools t) n
  | AtMarks c => option_map co_marks (find same_key c (st_cells s)) = option_map co_marks (find same_key c (st_cells t))
  | AtTouch c => flat_map (touches c) (flights s) = flat_map (touches c) (flights t)
  | AtWrites c => flat_map (writes_of c) (flights s) = flat_map (writes_of c) (flights t)
  | AtWhere a n => where_ a n s = where_ a n t
  | AtEnded cta => ended p s cta = ended p t cta
  end.

Lemma agree_refl l s : agree l s s.
Proof. now destruct l. Qed.
Lemma agree_sym l s t : agree l s t -> agree l t s.
Proof. destruct l; cbn; intros H; now symmetry. Qed.
Lemma agree_trans l s t u : agree l s t -> agree l t u -> agree l s u.
Proof. destruct l; cbn; intros H K; now rewrite H. Qed.

(** The same agents, barriers, cells, queues and pools. *)
Definition shape (s t : state) : Prop :=
  length (st_positions s) = length (st_positions t) /\ length (st_issued s) = length (st_issued t) /\
  map fst (st_barriers s) = map fst (st_barriers t) /\ map fst (st_named s) = map fst (st_named t) /\
  map fst (st_cells s) = map fst (st_cells t) /\ map fst (st_queues s) = map fst (st_queues t) /\
  length (st_pools s) = length (st_pools t).

Lemma shape_refl s : shape s s.
Proof. now repeat split. Qed.
Lemma shape_sym s t : shape s t -> shape t s.
Proof. intros (A & B & C & D & E & F & G). repeat split; now symmetry. Qed.
Lemma shape_trans s t u : shape s t -> shape t u -> shape s u.
Proof. intros (A & B & C & D & E & F & G) (A' & B' & C' & D' & E' & F' & G'). repeat split; congruence. Qed.

Definition near (R : list loc) (s t : state) : Prop := shape s t /\ forall l, In l R -> agree l s t.
Definition moved (W : list loc) (s t : state) : Prop := shape s t /\ forall l, ~ In l W -> agree l s t.

(** A function sees [R] and changes [W] from the state on: where another state is alike in [R] it does the same, and
    leaves the two alike in [F]. *)
Definition frame (R F W : list loc) (s : state) (f : state -> outcome state) : Prop :=
  forall t, near R s t ->
  match f s, f t with
  | Done s', Done t' => moved W s s' /\ moved W t t' /\ near F s' t'
  | Faulty k l, Faulty k' l' => k = k' /\ l = l'
  | Undefined, Undefined => True
  | _, _ => False
  end.

Definition reads {A} (R : list loc) (s : state) (r : state -> outcome A) : Prop :=
  forall t, near R s t -> r t = r s.

Lemma near_refl R s : near R s s.
Proof. split; [apply shape_refl|intros; apply agree_refl]. Qed.
Lemma near_less R R' s t : incl R' R -> near R s t -> near R' s t.
Proof. intros I [S H]. split; [easy|]. intros l L. apply H, I, L. Qed.
Lemma moved_refl W s : moved W s s.
Proof. split; [apply shape_refl|intros; apply agree_refl]. Qed.
Lemma moved_trans W s t u : moved W s t -> moved W t u -> moved W s u.
Proof.
  intros [S H] [T K]. split; [now apply shape_trans with t|]. intros l L. apply agree_trans with t; auto.
Qed.

(** ** Composition *)

Lemma frame_bind R M F W s f g : frame R M W s f -> (forall s', f s = Done s' -> frame M F W s' g) ->
  frame R F W s (fun t => bind (f t) g).
Proof.
  intros Hf Hg t N. specialize (Hf t N). destruct (f s) as [s'| |] eqn:E, (f t) as [t'| |]; try easy.
  destruct Hf as (Ms & Mt & N'). cbn [bind]. specialize (Hg s' eq_refl t' N').
  destruct (g s') as [s''| |], (g t') as [t''| |]; try easy. destruct Hg as (Ms' & Mt' & N'').
  repeat split; try easy; try (apply (moved_trans W _ _ _ Ms Ms')); try (apply (moved_trans W _ _ _ Mt Mt')); apply N''.
Qed.

Lemma frame_read {A} R F W s (r : state -> outcome A) g : reads R s r ->
  (forall a, r s = Done a -> frame R F W s (g a)) -> frame R F W s (fun t => bind (r t) (fun a => g a t)).
Proof.
  intros Hr Hg t N. rewrite (Hr t N). destruct (r s) as [a| |]; cbn [bind]; [|easy..]. now apply Hg.
Qed.

Lemma frame_done R F W s : incl F R -> frame R F W s Done.
Proof. intros I t N. repeat split; try apply moved_refl; try (now apply near_less with R); apply N. Qed.

Lemma frame_fold {A} R W (f : state -> A -> outcome state) l : forall s,
  (forall x s, In x l -> frame R R W s (fun t => f t x)) -> frame R R W s (fun t => fold f t l).
Proof.
  induction l as [|x l IH]; intros s H; cbn [fold].
  - now apply frame_done.
  - apply (frame_bind R R R W s (fun t => f t x)); [apply H; now left|]. intros s' _. apply IH.
    intros y t I. apply H. now right.
Qed.

Lemma frame_same R F W s f g : (forall t, f t = g t) -> frame R F W s f -> frame R F W s g.
Proof. intros E H t N. rewrite <- !E. now apply H. Qed.

Lemma reads_bind {A B} R s (r : state -> outcome A) (g : A -> state -> outcome B) : reads R s r ->
  (forall a, r s = Done a -> reads R s (g a)) -> reads R s (fun t => bind (r t) (fun a => g a t)).
Proof.
  intros Hr Hg t N. rewrite (Hr t N). destruct (r s) as [a| |]; cbn [bind]; [|easy..]. now apply Hg.
Qed.
Lemma reads_each {A B} R s (f : A -> state -> outcome B) l : (forall x, In x l -> reads R s (f x)) ->
  reads R s (fun t => each (fun x => f x t) l).
Proof.
  intros H t N. induction l as [|x l IH]; cbn [each]; [easy|].
  rewrite (H x (or_introl eq_refl) t N), IH; [easy|]. intros y I. apply H. now right.
Qed.
Lemma reads_const {A} R s (x : outcome A) : reads R s (fun _ => x).
Proof. now intros t N. Qed.

(** ** What two such functions do in either order *)

Definition apart (W R : list loc) : Prop := forall l, In l W -> ~ In l R.

(** The two states are the same, but that sets and what is in flight without a queue may be listed in another order. *)
Definition alike (s t : state) : Prop := shape s t /\ forall l, own l = true -> agree l s t.

Lemma moved_near W R s t : moved W s t -> apart W R -> near R s t.
Proof. intros [S H] A. split; [easy|]. intros l L. apply H. intros I. now apply (A l I). Qed.


End Table.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** ** Tables *)

Lemma keys_put k v (l : list (key * v)) b : find same_key k l <> None -> map fst (put same_key k b l) = map fst l.
Proof.
  induction l as [|[h w] l IH]; cbn; [easy|]. destruct (same_key k h) eqn:E; cbn; intros F.
  - apply same_key_eq in E. now subst.
  - now rewrite IH.
Qed.

Lemma none_keys {V W} k (l : list (key * V)) : forall l' : list (key * W), map fst l = map fst l' ->
  find same_key k l = None -> find same_key k l' = None.
Proof.
  induction l as [|[h v] l IH]; intros [|[h' w] l']; cbn; try easy. intros [= <- E].
  destruct (same_key k h); [easy|]. now apply IH.
Qed.

Lemma same_key_refl k : same_key k k = true.
Proof. now apply same_key_eq. Qed.

Lemma find_put_same {V} k (b : V) l : find same_key k (put same_key k b l) = Some b.
Proof.
  induction l as [|[h w] l IH]; cbn; [now rewrite same_key_refl|].
  destruct (same_key k h) eqn:E; cbn; [now rewrite same_key_refl|]. now rewrite E.
Qed.

Lemma some_near {V} k (l l' : list (key * V)) : map fst l = map fst l' -> find same_key k l <> None ->
  find same_key k l' <> None.
Proof. intros E F G. apply F. symmetry in E. now apply (none_keys k l' l). Qed.

Lemma key_cases (k h : key) : {k = h} + {k <> h}.
Proof.
  destruct (same_key k h) eqn:E; [left; now apply same_key_eq|right; intros ->].
  now rewrite same_key_refl in E.
Qed.

Lemma same_pair_eq k h : same_pair k h = true <-> k = h.
Proof.
  destruct k, h. unfold same_pair. cbn. rewrite andb_true_iff, !Nat.eqb_eq. split; [now intros [-> ->]|now intros [= -> ->]].
Qed.
Lemma same_pair_refl k : same_pair k k = true.
Proof. now apply same_pair_eq. Qed.
Lemma pairs_put {V} k (l : list (nat * nat * V)) b : find same_pair k l <> None -> map fst (put same_pair k b l) = map fst l.
Proof.
  induction l as [|[h w] l IH]; cbn; [easy|]. destruct (same_pair k h) eqn:E; cbn; intros F.
  - apply same_pair_eq in E. now subst.
  - now rewrite IH.
Qed.
Lemma pair_put_same {V} k (b : V) l : find same_pair k (put same_pair k b l) = Some b.
Proof.
  induction l as [|[h w] l IH]; cbn; [now rewrite same_pair_refl|].
  destruct (same_pair k h) eqn:E; cbn; [now rewrite same_pair_refl|]. now rewrite E.
Qed.
Lemma pair_put_other {V} k h (v : V) l : k <> h -> find same_pair h (put same_pair k v l) = find same_pair h l.
Proof.
  intros N. induction l as [|[g w] l IH]; cbn [put find].
  - destruct (same_pair h k) eqn:E; [|easy]. apply same_pair_eq in E. now subst.
  - destruct (same_pair k g) eqn:E; cbn [find].
    + apply same_pair_eq in E. subst g. destruct (same_pair h k) eqn:F; [|easy].
      apply same_pair_eq in F. now subst.
    + now rewrite IH.
Qed.

Lemma set_nth_length {A} n (v : A) l : length (set_nth n v l) = length l.
Proof. revert n. induction l as [|h l IH]; intros [|n]; cbn; auto. Qed.
Lemma nth_set_same {A} n (v : A) l : nth_error l n <> None -> nth_error (set_nth n v l) n = Some v.
Proof. revert n. induction l as [|h l IH]; intros [|n]; cbn; try easy. apply IH. Qed.
Lemma nth_set_other {A} n m (v : A) l : n <> m -> nth_error (set_nth n v l) m = nth_error l m.
Proof. revert n m. induction l as [|h l IH]; intros [|n] [|m] N; cbn; try easy. apply IH. lia. Qed.

(** ** What is put into a table *)

(** A change of one entry moves its location alone. *)
Lemma put_barrier_moved W s k b : In (AtBarrier k) W -> find same_key k (st_barriers s) <> None ->
  moved W s (put_barrier s k b).
Proof.
  intros I F. split.
  - repeat split; try easy. cbn. symmetry. now apply keys_put.
  - intros [] N; try easy. cbn. symmetry. apply find_put_other. now intros ->.
Qed.

Lemma put_named_moved W s k n : In (AtNamed k) W -> find same_key k (st_named s) <> None ->
  moved W s (with_named (put same_key k n (st_named s)) s).
Proof.
  intros I F. split.
  - repeat split; try easy. cbn. symmetry. now apply keys_put.
  - intros [] N; try easy. cbn. symmetry. apply find_put_other. now intros ->.
Qed.

Lemma frame_put_named R W s k n : In (AtNamed k) W -> find same_key k (st_named s) <> None ->
  frame R R W s (fun t => Done (with_named (put same_key k n (st_named t)) t)).
Proof.
  intros I F t [S H]. pose proof S as (_ & _ & _ & B & _).
  assert (G : find same_key k (st_named t) <> None) by now apply (some_near k (st_named s)).
  split; [now apply put_named_moved|]. split; [now apply put_named_moved|]. split.
  - apply (shape_trans _ s); [apply shape_sym, (put_named_moved W s k n I F)|].
    apply (shape_trans _ t); [easy|apply (put_named_moved W t k n I G)].
  - intros l L. specialize (H l L). destruct l; try exact H. cbn in H |- *.
    destruct (key_cases k k0) as [->|N]; [now rewrite !find_put_same|]. now rewrite !find_put_other.
Qed.

Lemma put_pool_moved W s n v : In (AtPool n) W -> nth_error (st_pools s) n <> None ->
  moved W s (with_pools (set_nth n v (st_pools s)) s).
Proof.
  intros I F. split.
  - repeat split; try easy. cbn. now rewrite set_nth_length.
  - intros [] N; try easy. cbn. symmetry. apply nth_set_other. now intros ->.
Qed.

(** ** Going on *)

Definition with_positions l s := State l (st_issued s) (st_barriers s) (st_named s) (st_cells s)
  (st_queues s) (st_free s) (st_pools s).

Definition goes (g : agent) (q : position) : outcome position :=
  match frames q with [] => Undefined | (b, i) :: outer => settle p local_steps_max g ((b, S i) :: outer) (values q) end.

Lemma advance_goes s a : advance p s a = bind (agent_of p a) (fun g => bind (got (nth_error (st_positions s) a))
  (fun q => bind (goes g q) (fun q' => Done (with_positions (set_nth a q' (st_positions s)) s)))).
Proof.
  unfold advance, goes. destruct (agent_of p a) as [g| |]; [|easy..]. cbn [bind].
  destruct (nth_error (st_positions s) a) as [q|]; [|easy]. cbn [got bind].
  destruct (frames q) as [|[b i] outer]; [easy|]. reflexivity.
Qed.

Lemma frame_after R F F' W s f : incl F' F -> frame R F W s f -> frame R F' W s f.
Proof.
  intros I H t N. specialize (H t N). destruct (f s), (f t); try easy.
  destruct H as (A & B & C). split; [easy|]. split; [easy|]. now apply (near_less p F).
Qed.

Lemma own_own R : incl (filter own R) (filter own (filter own R)).
Proof. intros l L. apply filter_In. split; [easy|]. now apply filter_In in L. Qed.

Lemma own_less R : incl (filter own R) R.
Proof. intros l L. now apply filter_In in L. Qed.

(** ** mbarriers *)

Lemma reads_declared R s a env r : reads R s (fun t => declared t a env r).
Proof.
  intros t [(_ & _ & B & _) _]. unfold declared. destruct (key_of env r) as [k| |]; [|easy..]. cbn [bind].
  destruct (find same_key k (st_barriers s)) eqn:E, (find same_key k (st_barriers t)) eqn:F; try easy.
  - symmetry in B. rewrite (none_keys k _ _ B F) in E. easy.
  - rewrite (none_keys k _ _ B E) in F. easy.
Qed.

Lemma reads_alive R s a cta : In (AtEnded cta) R -> reads R s (fun t => check_alive p t a cta).
Proof. intros I t [_ H]. unfold check_alive. now rewrite <- (H _ I : ended p s cta = ended p t cta). Qed.

End Table.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** ** Cells *)

Lemma inside_add n x l : inside n (add x l) = (n =? x) || inside n l.
Proof.
  unfold inside. induction l as [|h l IH]; cbn; [easy|]. destruct (Z.ltb_spec x h); [easy|].
  destruct (Z.eqb_spec x h) as [->|]; cbn.
  - now destruct (n =? h).
  - rewrite IH. now destruct (n =? h), (n =? x).
Qed.

(** A change of a cell that sees of it what it keeps apart. *)
Record cell_change (W : list loc) (c : cell) (f : content -> content) : Prop := {
  ch_core : forall h g, core h = core g -> core (f h) = core (f g);
  ch_marks : forall h g, co_marks h = co_marks g -> co_marks (f h) = co_marks (f g);
  ch_writer : forall h g n, inside n (co_writers h) = inside n (co_writers g) -> inside n (co_writers (f h)) = inside n (co_writers (f g));
  ch_reader : forall h g n, inside n (co_readers h) = inside n (co_readers g) -> inside n (co_readers (f h)) = inside n (co_readers (f g));
  ch_writers : forall h g, co_writers h = co_writers g -> co_writers (f h) = co_writers (f g);
  ch_readers : forall h g, co_readers h = co_readers g -> co_readers (f h) = co_readers (f g);
  ch_moves : forall h, (core (f h) = core h \/ In (AtContent c) W) /\ (co_marks (f h) = co_marks h \/ In (AtMarks c) W) /\
    (co_writers (f h) = co_writers h \/ In (AtWriters c) W) /\ (co_readers (f h) = co_readers h \/ In (AtReaders c) W) /\
    (forall n, inside n (co_writers (f h)) = inside n (co_writers h) \/ In (AtWriter c n) W) /\
    (forall n, inside n (co_readers (f h)) = inside n (co_readers h) \/ In (AtReader c n) W) }.

Lemma put_cell_moved W s c f h : cell_change W c f -> find same_key c (st_cells s) = Some h ->
  moved W s (put_cell s c (f h)).
Proof.
  intros C F. destruct (ch_moves W c f C h) as (A1 & A0 & A2 & A3 & A4 & A5). split.
  - repeat split; try easy. cbn. symmetry. apply keys_put. now rewrite F.
  - intros [] N; try easy; cbn; destruct (key_cases c c0) as [<-|M];
      rewrite ?find_put_same, ?find_put_other by easy; try easy; rewrite F; cbn [option_map]; f_equal; symmetry.
    + now destruct A1.
    + now destruct A0.
    + now destruct (A4 n).
    + now destruct (A5 n).
    + now destruct A2.
    + now destruct A3.
Qed.

Lemma frame_cell R W s c f : cell_change W c f ->
  frame R R W s (fun t => bind (cell_at t c) (fun h => Done (put_cell t c (f h)))).
Proof.
  intros C t [S H]. pose proof S as (_ & _ & _ & _ & K & _). unfold cell_at.
  destruct (find same_key c (st_cells s)) as [h|] eqn:E, (find same_key c (st_cells t)) as [g|] eqn:F; cbn [got bind]; try easy.
  2: { symmetry in K. rewrite (none_keys c _ _ K F) in E. easy. }
  2: { rewrite (none_keys c _ _ K E) in F. easy. }
  pose proof (put_cell_moved W s c f h C E) as M. pose proof (put_cell_moved W t c f g C F) as M'.
  split; [easy|]. split; [easy|]. split.
  - apply (shape_trans _ s); [apply shape_sym, M|]. apply (shape_trans _ t); [easy|apply M'].
  - intros l L. specialize (H l L). destruct C as [C1 C0 C2 C3 C4 C5 _]. destruct l; try exact H; cbn in H |- *;
      (destruct (key_cases c c0) as [<-|N]; [rewrite !find_put_same; cbn; rewrite E, F in H; cbn in H; injection H as H
        |now rewrite !find_put_other]); f_equal; auto.
    unfold core in *. apply C1. unfold core. congruence.
Qed.

Definition plain (c : cell) : bool := is_empty (cached p (fst c)).

Lemma outside_plain h c w : plain c = true -> co_marks (outside p h c w) = co_marks h.
Proof. unfold plain, outside. destruct (cached p (fst c)); [|easy]. intros _. cbn. now destruct (co_marks h). Qed.

(** Writers, and who adds to them. *)
Lemma write_change W c t who (keeps : content -> Z) : plain c = true ->
  (forall h g, core h = core g -> keeps h = keeps g) ->
  In (AtContent c) W -> In (AtWriters c) W -> In (AtWriter c who) W -> t = tt ->
  cell_change W c (fun h => Content (keeps h) (add who (co_writers h)) (co_readers h) (add who (co_authors h)) false
    (co_marks (outside p h c 1))).
Proof.
  intros P K A B C _. constructor; cbn [co_writers co_readers].
  - intros h g E. pose proof (K h g E) as Q. unfold core in *. cbn [co_tile co_authors co_released]. injection E as E1 E2 E3. congruence.
  - intros h g E. cbn [co_marks]. now rewrite !outside_plain.
  - intros h g n. rewrite !inside_add. now intros ->.
  - easy.
  - now intros h g ->.
  - easy.
  - intros h. cbn [co_marks]. rewrite outside_plain by easy. repeat split; auto. intros n. rewrite inside_add. destruct (Z.eqb_spec n who) as [->|]; auto.
Qed.

Lemma read_change W c who : plain c = true -> In (AtReaders c) W -> In (AtReader c who) W ->
  cell_change W c (fun h => Content (co_tile h) (co_writers h) (add who (co_readers h)) (co_authors h) (co_released h)
    (co_marks (outside p h c 0))).
Proof.
  intros P B C. constructor; cbn [co_writers co_readers].
  - intros h g E. unfold core in *. cbn [co_tile co_authors co_released]. exact E.
  - intros h g E. cbn [co_marks]. now rewrite !outside_plain.
  - easy.
  - intros h g n. rewrite !inside_add. now intros ->.
  - easy.
  - now intros h g ->.
  - intros h. unfold core. cbn [co_tile co_writers co_readers co_authors co_released co_marks]. rewrite outside_plain by easy. repeat split; auto.
    intros n. rewrite inside_add. destruct (Z.eqb_spec n who) as [->|]; auto.
Qed.

Lemma outside_change W c w : plain c = true -> cell_change W c (fun h => outside p h c w).
Proof.
  intros P. constructor; try easy.
  - intros h g H. now rewrite !outside_plain.
  - intros h. rewrite outside_plain by easy. unfold outside, core. cbn [co_tile co_writers co_readers co_authors co_released]. repeat split; auto.
Qed.

Lemma engine_change W c (keeps : content -> Z) : plain c = true -> (forall h g, core h = core g -> keeps h = keeps g) ->
  In (AtContent c) W ->
  cell_change W c (fun h => Content (keeps h) (co_writers h) (co_readers h) (add engine (co_authors h)) false
    (co_marks (outside p h c 1))).
Proof.
  intros P K A. constructor; cbn [co_writers co_readers]; try easy.
  - intros h g E. pose proof (K h g E) as Q. unfold core in *. cbn [co_tile co_authors co_released]. injection E as E1 E2 E3. congruence.
  - intros h g E. cbn [co_marks]. now rewrite !outside_plain.
  - intros h. cbn [co_marks]. rewrite outside_plain by easy. repeat split; auto.
Qed.

Lemma kept_core tile kind h g : core h = core g -> kept_tile h tile kind = kept_tile g tile kind.
Proof. unfold core, kept_tile. intros E. destruct kind; [|easy]. congruence. Qed.

(** ** What is in flight at a cell *)

Lemma fold_app {A S} (f : S -> A -> outcome S) l m : forall s, fold f s (l ++ m) = bind (fold f s l) (fun s => fold f s m).
Proof. induction l as [|x l IH]; intros s; cbn; [easy|]. destruct (f s x); cbn; auto. Qed.

Lemma find_app {A} (f : A -> bool) l m : List.find f (l ++ m) = match List.find f l with Some x => Some x | None => List.find f m end.
Proof. induction l as [|x l IH]; cbn; [easy|]. now destruct (f x). Qed.

Lemma find_touches (P : flight -> flight_access -> bool) c : (forall f, P (bare f) = P f) ->
  (forall f w, P f w = true -> same_key (fa_cell w) c && (fa_write w || fl_reading f) = true) ->
  forall fl, option_map fl_agent (List.find (fun f => existsb (P f) (fl_accesses f)) fl) =
    option_map (fun x => fl_agent (fst x)) (List.find (fun x => P (fst x) (snd x)) (flat_map (touches c) fl)).
Proof.
  intros B N. induction fl as [|f fl IH]; cbn [flat_map List.find]; [easy|]. rewrite find_app.
  assert (E : existsb (P f) (fl_accesses f) = match List.find (fun x => P (fst x) (snd x)) (touches c f) with Some _ => true | None => false end
    /\ forall x, List.find (fun x => P (fst x) (snd x)) (touches c f) = Some x -> fl_agent (fst x) = fl_agent f).
  { unfold touches. induction (fl_accesses f) as [|w l [IH1 IH2]]; cbn [existsb filter map List.find]; [easy|].
    destruct (same_key (fa_cell w) c && (fa_write w || fl_reading f)) eqn:E; cbn [map List.find fst snd].
    - rewrite B. destruct (P f w) eqn:Q; cbn [orb]; [|easy]. split; [easy|]. now intros x [= <-].
    - destruct (P f w) eqn:Q; [now rewrite (N f w Q) in E|]. easy. }
  destruct E as [-> E]. destruct (List.find _ (touches c f)) as [x|]; [|apply IH]. cbn. now rewrite (E x eq_refl).
Qed.


Lemma reads_core {A} R s c (g : content -> outcome A) : In (AtContent c) R -> (forall h k, core h = core k -> g h = g k) ->
  reads R s (fun t => bind (cell_at t c) g).
Proof.
  intros I G t [_ H]. specialize (H _ I). cbn in H. unfold cell_at.
  destruct (find same_key c (st_cells s)), (find same_key c (st_cells t)); cbn in *; try easy. apply G. congruence.
Qed.


Lemma fold_writes {S} (one : flight -> S -> flight_access -> outcome S) c :
  (forall f, one (with_reading (bare f) false 0) = one f) ->
  (forall f h w, same_key (fa_cell w) c && fa_write w = false -> one f h w = Done h) ->
  forall fl h, fold (fun h f => fold (one f) h (fl_accesses f)) h fl =
    fold (fun h x => one (fst x) h (snd x)) h (flat_map (writes_of c) fl).
Proof.
  intros B N. induction fl as [|f fl IH]; intros h; cbn [flat_map fold]; [easy|]. rewrite fold_app.
  assert (E : fold (one f) h (fl_accesses f) = fold (fun h x => one (fst x) h (snd x)) h (writes_of c f)).
  { unfold writes_of. revert h. induction (fl_accesses f) as [|w l IHl]; intros h; cbn [fold filter map]; [easy|].
    destruct (same_key (fa_cell w) c && fa_write w) eqn:E; cbn [map fold fst snd].
    - rewrite B. destruct (one f h w); cbn [bind]; [apply IHl|easy..].
    - rewrite N by easy. cbn [bind]. apply IHl. }
  rewrite E. destruct (fold _ h (writes_of c f)); cbn [bind]; [apply IH|easy..].
Qed.

Lemma reads_check_read R s a c tile q : In (AtContent c) R -> In (AtWrites c) R -> reads R s (fun t => check_read p t a c tile q).
Proof.
  intros I J t N. pose proof (proj2 N _ J : flat_map (writes_of c) (flights s) = _) as T.
  set (one := fun (f : flight) held w => if same_key (fa_cell w) c && fa_write w then
        if pipe_keeps p (pipe_of p f a q) w false None then Done (fa_tile w) else Faulty ReadBeforeArrival [a; fl_agent f]
      else Done held).
  assert (E : forall u, check_read p u a c tile q = bind (cell_at u c) (fun h =>
      bind (fold (fun held x => one (fst x) held (snd x)) (co_tile h) (flat_map (writes_of c) (flights u)))
        (fun held => guard (negb ((tile =? any_tile) || (tile =? held))) StaleRead [a]))).
  { intros u. unfold check_read. destruct (cell_at u c) as [h| |]; [|easy..]. cbn [bind].
    rewrite <- (fold_writes one c); [easy..|]. intros f h' w X. unfold one. now rewrite X. }
  rewrite !E, T. clear E. destruct N as [S H]. specialize (H _ I). cbn in H. unfold cell_at.
  destruct (find same_key c (st_cells s)), (find same_key c (st_cells t)); cbn in *; try easy. injection H as H _ _. now rewrite H.
Qed.

Lemma reads_check_write R s a c q extent kind : In (AtTouch c) R -> reads R s (fun t => check_write p t a c q extent kind).
Proof.
  intros J t N. pose proof (proj2 N _ J : flat_map (touches c) (flights s) = _) as T.
  set (P := fun (f : flight) w => negb (pipe_keeps p (pipe_of p f a q) w true extent)
      && negb (commute kind (fa_kind w)) && same_key (fa_cell w) c && (fa_write w || fl_reading f)).
  assert (E : forall u, check_write p u a c q extent kind =
    match option_map (fun x => fl_agent (fst x)) (List.find (fun x => P (fst x) (snd x)) (flat_map (touches c) (flights u))) with
    | Some b => Faulty OverwriteInFlight [a; b] | None => Done tt end).
  { intros u. rewrite <- (find_touches P c).
    - transitivity (match List.find (fun f => existsb (P f) (fl_accesses f)) (flights u) with
        Some f => @Faulty unit OverwriteInFlight [a; fl_agent f] | None => Done tt end); [reflexivity|].
      now destruct (List.find (fun f => existsb (P f) (fl_accesses f)) (flights u)).
    - easy.
    - intros f w. unfold P. rewrite !andb_true_iff. intros [[_ A] B]. now rewrite A, B. }
  now rewrite !E, T.
Qed.

Lemma reads_check_sum R s a c tile kind : In (AtContent c) R -> reads R s (fun t => check_sum t a c tile kind).
Proof.
  intros I. unfold check_sum. destruct kind; [|now intros t N]. apply reads_core; [easy|].
  intros h k E. unfold core in E. injection E as E _ _. now rewrite E.
Qed.

Lemma check_cached_plain s a b c x w : plain c = true -> check_cached p s a b c x w = Done tt.
Proof. unfold plain, check_cached. now intros ->. Qed.

(** What an asynchronous access asks of the marks at a cell. *)
Definition proxy_seen (c : cell) (x : proxy) (write : bool) : list loc :=
  match x with
  | Async => AtMarks c :: AtWriters c :: if write then [AtReaders c] else []
  | Tensormap => [AtContent c]
  | _ => []
  end.

Lemma reads_check_proxy R s a c x w : incl (proxy_seen c x w) R -> reads R s (fun t => check_proxy p t a c x w).
Proof.
  intros I t [S H]. pose proof S as (_ & _ & _ & _ & K & _). unfold check_proxy, cell_at.
  destruct (find same_key c (st_cells s)) as [h|] eqn:E, (find same_key c (st_cells t)) as [g|] eqn:F; cbn [got bind]; try easy.
  2: { symmetry in K. rewrite (none_keys c _ _ K F) in E. easy. }
  2: { rewrite (none_keys c _ _ K E) in F. easy. }
  destruct x; cbn [proxy_seen] in I; try easy.
  - pose proof (H _ (I _ (or_introl eq_refl))) as A. pose proof (H _ (I _ (or_intror (or_introl eq_refl)))) as B. cbn in A, B.
    rewrite E, F in A, B. cbn in A, B. injection A as A. injection B as B. rewrite A, B. destruct w; [|easy].
    pose proof (H _ (I _ (or_intror (or_intror (or_introl eq_refl))))) as C. cbn in C. rewrite E, F in C. cbn in C. injection C as C. now rewrite C.
  - pose proof (H _ (I _ (or_introl eq_refl))) as A. cbn in A. rewrite E, F in A. unfold core in A. cbn in A. injection A as _ A2 A3. now rewrite A2, A3.
Qed.

(** ** Accesses *)

Definition alive_list (a : nat) (effects : list effect) : list loc :=
  flat_map (fun e => match nth_error (pr_buffers p) (ef_buffer e) with
    | Some b => if negb (same_space (bu_space b) Global) && negb (bu_cta b =? cta_of p a) && negb (po_exit_allowed (pr_policies p))
                then [AtEnded (bu_cta b)] else []
    | None => [] end) effects.

Lemma reads_resolve R s a env e effects : In e effects -> incl (alive_list a effects) R -> reads R s (fun t => resolve p t a env e).
Proof.
  intros M I t N. unfold resolve. destruct (nth_error (pr_buffers p) (ef_buffer e)) as [b|] eqn:B; [|easy]. cbn [got bind].
  destruct (value env (ef_stage e)) as [stage| |]; [|easy..]. cbn [bind].
  destruct (optional env (ef_part e)) as [part| |]; [|easy..]. cbn [bind]. destruct (negb _) eqn:G; cbn [guard bind]; [easy|].
  destruct (negb (same_space (bu_space b) Global) && negb (bu_cta b =? cta_of p a)) eqn:F; [|easy].
  destruct (po_exit_allowed (pr_policies p)) eqn:X; [unfold check_alive; now rewrite X|].
  rewrite (reads_alive p R s a (bu_cta b)); [easy| |easy]. apply I, in_flat_map. exists e. split; [easy|]. rewrite B, F, X. now left.
Qed.

Definition resolved (s : state) (a : nat) (env : nat -> Z) (effects : list effect) :=
  each (fun e => let* r := resolve p s a env e in Done (e, r)) effects.

Lemma reads_resolved R s a env effects : incl (alive_list a effects) R -> reads R s (fun t => resolved t a env effects).
Proof.
  intros I. apply (reads_each p R s (fun e t => let* r := resolve p t a env e in Done (e, r))). intros e M.
  apply (reads_bind p R s (fun t => resolve p t a env e) (fun r _ => Done (e, r))); [now apply reads_resolve with effects|].
  intros r _. apply reads_const.
Qed.

Definition seen_by (a : nat) (e : effect) (c : cell) : list loc :=
  AtContent c :: if ef_write e then [AtTouch c; AtWriter c (Z.of_nat a)] else [AtWrites c; AtReader c (Z.of_nat a)].
Definition changed_by (a : nat) (e : effect) (c : cell) : list loc :=
  if ef_write e then [AtContent c; AtWriters c; AtWriter c (Z.of_nat a)] else [AtReaders c; AtReader c (Z.of_nat a)].
Definition over_cells (f : effect -> cell -> list loc) (l : list (effect * (list cell * Z))) : list loc :=
  flat_map (fun x => flat_map (f (fst x)) (fst (snd x))) l.
Definition plain_effects (l : list (effect * (list cell * Z))) : bool :=
  forallb (fun x => negb (is_cached (ef_proxy (fst x))) && forallb plain (fst (snd x))) l.

Lemma over_in f l e cells tile c : In (e, (cells, tile)) l -> In c cells -> incl (f e c) (over_cells f l).
Proof.
  intros I J x X. apply in_flat_map. exists (e, (cells, tile)). split; [easy|]. apply in_flat_map. now exists c.
Qed.
Lemma plain_in l e cells tile c : plain_effects l = true -> In (e, (cells, tile)) l -> In c cells ->
  is_cached (ef_proxy e) = false /\ plain c = true.
Proof.
  unfold plain_effects. rewrite forallb_forall. intros H I J. specialize (H _ I). cbn in H. apply andb_true_iff in H as [A B].
  rewrite forallb_forall in B. split; [now apply negb_true_iff|now apply B].
Qed.

Lemma frame_access R W s a env effects l : resolved s a env effects = Done l -> plain_effects l = true ->
  incl (alive_list a effects) R -> incl (over_cells (seen_by a) l) R -> incl (over_cells (changed_by a) l) W ->
  frame R R W s (fun t => access p t a env effects).
Proof.
  intros E P A S C. unfold access. fold (resolved s a env effects).
  apply (frame_read p R R W s (fun t => resolved t a env effects)); [now apply reads_resolved|].
  rewrite E. intros l' [= <-].
  apply (frame_read p R R W s (fun t => each (fun '(e, (cells, tile)) => each (fun c =>
      let x := if is_cached (ef_proxy e) then ef_proxy e else Generic in
      let* _ := check_cached p t a (ef_buffer e) c x (ef_write e) in
      if ef_write e then let* _ := check_write p t a c None None (kind_of p a e) in check_sum t a c tile (kind_of p a e)
      else check_read p t a c tile None) cells) l)).
  - apply (reads_each p R s (fun x t => let '(e, (cells, tile)) := x in each (fun c => _) cells)). intros [e [cells tile]] M.
    apply (reads_each p R s (fun c t => _)). intros c I. pose proof (over_in (seen_by a) l e cells tile c M I) as X.
    assert (X1 : In (AtContent c) R) by (apply S, X; now left).
    destruct (plain_in l e cells tile c P M I) as [Q1 Q2]. intros t N. rewrite !check_cached_plain by easy. cbn [bind].
    unfold seen_by in X. destruct (ef_write e).
    + assert (X2 : In (AtTouch c) R) by (apply S, X; right; now left).
      rewrite (reads_check_write R s a c None None (kind_of p a e) X2 t N), (reads_check_sum R s a c tile (kind_of p a e) X1 t N). easy.
    + assert (X2 : In (AtWrites c) R) by (apply S, X; right; now left). apply (reads_check_read R s a c tile None X1 X2 t N).
  - intros _ _. apply frame_fold. intros [e [cells tile]] u M. apply frame_fold. intros c v I.
    pose proof (over_in (changed_by a) l e cells tile c M I) as X. destruct (plain_in l e cells tile c P M I) as [-> Q].
    unfold changed_by in X. destruct (ef_write e).
    + apply (frame_same p R R W v (fun t => bind (cell_at t c) (fun h => Done (put_cell t c
        (Content (kept_tile h tile (kind_of p a e)) (add (Z.of_nat a) (co_writers h)) (co_readers h) (add (Z.of_nat a) (co_authors h)) false
        (co_marks (outside p h c 1))))))).
      * intros t. unfold note_write. now destruct (cell_at t c).
      * apply (frame_cell R W v c (fun h => _)). apply (write_change W c tt (Z.of_nat a) (fun h => kept_tile h tile (kind_of p a e))); try easy.
        -- intros h g. apply kept_core.
        -- apply C, X. now left.
        -- apply C, X. right. now left.
        -- apply C, X. right. right. now left.
    + unfold note_read. apply (frame_cell R W v c (fun h => _)). apply read_change; [easy|apply C, X; now left|apply C, X; right; now left].
Qed.
End Table.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** ** Queues *)

Definition contents (g : groups) : list flight := concat (gr_closed g) ++ gr_open g.

Lemma flat_flat {A B D} (f : B -> list D) (g : A -> list B) l : flat_map f (flat_map g l) = flat_map (fun x => flat_map f (g x)) l.
Proof. induction l as [|x l IH]; cbn; [easy|]. now rewrite flat_map_app, IH. Qed.

Lemma flights_flat {X} (h : flight -> list X) s : flat_map h (flights s) =
  flat_map h (st_free s) ++ flat_map (fun e => flat_map h (contents (snd e))) (st_queues s).
Proof. unfold flights. now rewrite flat_map_app, flat_flat. Qed.

Lemma put_flat {X} (G : groups -> list X) k g g0 l : find same_pair k l = Some g0 -> G g = G g0 ->
  flat_map (fun e => G (snd e)) (put same_pair k g l) = flat_map (fun e => G (snd e)) l.
Proof.
  intros F E. induction l as [|[h v] l IH]; cbn in *; [easy|]. destruct (same_pair k h); cbn.
  - injection F as ->. now rewrite E.
  - now rewrite IH.
Qed.

Lemma put_where a n k g g0 l : find same_pair k l = Some g0 -> existsb (is_mark a n) (contents g) = existsb (is_mark a n) (contents g0) ->
  option_map fst (List.find (holds_mark a n) (put same_pair k g l)) = option_map fst (List.find (holds_mark a n) l).
Proof.
  intros F E. induction l as [|[h v] l IH]; cbn [put find List.find] in *; [easy|]. destruct (same_pair k h) eqn:S.
  - injection F as ->. apply same_pair_eq in S. subst h. cbn [List.find].
    assert (H : holds_mark a n (k, g) = holds_mark a n (k, g0)) by exact E. rewrite H. now destruct (holds_mark a n (k, g0)).
  - cbn [List.find]. destruct (holds_mark a n (h, v)); [easy|]. now apply IH.
Qed.

Section Queue.
Variables (W : list loc) (k : nat * nat) (g0 g : groups).
Hypothesis I : In (AtQueue k) W.
Hypothesis T : forall c, flat_map (touches c) (contents g) = flat_map (touches c) (contents g0) \/ In (AtTouch c) W.
Hypothesis TW : forall c, flat_map (writes_of c) (contents g) = flat_map (writes_of c) (contents g0) \/ In (AtWrites c) W.
Hypothesis M : forall a n, existsb (is_mark a n) (contents g) = existsb (is_mark a n) (contents g0) \/ In (AtWhere a n) W.

Lemma put_queue_moved s : find same_pair k (st_queues s) = Some g0 ->
  moved W s (with_queues (put same_pair k g (st_queues s)) s).
Proof.
  intros F. split.
  - repeat split; try easy. cbn. symmetry. apply pairs_put. now rewrite F.
  - intros [] N; try easy.
    + cbn. symmetry. apply pair_put_other. now intros ->.
    + unfold SyncFrames.agree. rewrite !flights_flat. cbn. f_equal. symmetry. apply (put_flat (fun g => flat_map (touches c) (contents g)) k g g0); [easy|]. now destruct (T c).
    + unfold SyncFrames.agree. rewrite !flights_flat. cbn. f_equal. symmetry. apply (put_flat (fun g => flat_map (writes_of c) (contents g)) k g g0); [easy|]. now destruct (TW c).
    + cbn. unfold where_. cbn. symmetry. apply put_where with g0; [easy|]. now destruct (M a n).
Qed.

End Queue.

(** What is issued. *)
Lemma frame_issued R W s a n : In (AtIssued a) R -> In (AtIssued a) W -> nth_error (st_issued s) a <> None ->
  frame R R W s (fun t => Done (with_issued (set_nth a n (st_issued t)) t)).
Proof.
  intros J I F t [S H]. assert (G : nth_error (st_issued t) a <> None) by now rewrite <- (H _ J).
  assert (X : forall u, nth_error (st_issued u) a <> None -> moved W u (with_issued (set_nth a n (st_issued u)) u)).
  { intros u E. split.
    - repeat split; try easy. cbn. now rewrite set_nth_length.
    - intros [] N; try easy. cbn. symmetry. apply nth_set_other. now intros ->. }
  split; [now apply X|]. split; [now apply X|]. split.
  - apply (shape_trans _ s); [apply shape_sym, (X s F)|]. apply (shape_trans _ t); [easy|apply (X t G)].
  - intros l L. specialize (H l L). destruct l; try exact H. cbn in H |- *.
    destruct (Nat.eq_dec a a0) as [<-|N]; [now rewrite !nth_set_same|]. now rewrite !nth_set_other.
Qed.

Definition touched_cells (f : flight) : list loc :=
  flat_map (fun w => AtTouch (fa_cell w) :: if fa_write w then [AtWrites (fa_cell w)] else []) (fl_accesses f).

Lemma touches_in W f c : incl (touched_cells f) W -> touches c f = [] \/ In (AtTouch c) W.
Proof.
  intros I. unfold touches. destruct (filter _ (fl_accesses f)) as [|w l] eqn:E; [now left|]. right.
  assert (J : In w (filter (fun w => same_key (fa_cell w) c && (fa_write w || fl_reading f)) (fl_accesses f))) by (rewrite E; now left).
  apply filter_In in J as [J K]. apply andb_true_iff in K as [K _]. apply same_key_eq in K. subst c. apply I.
  unfold touched_cells. apply in_flat_map. exists w. split; [easy|now left].
Qed.
Lemma writes_in W f c : incl (touched_cells f) W -> writes_of c f = [] \/ In (AtWrites c) W.
Proof.
  intros I. unfold writes_of. destruct (filter _ (fl_accesses f)) as [|w l] eqn:E; [now left|]. right.
  assert (J : In w (filter (fun w => same_key (fa_cell w) c && fa_write w) (fl_accesses f))) by (rewrite E; now left).
  apply filter_In in J as [J K]. apply andb_true_iff in K as [K K']. apply same_key_eq in K. subst c. apply I.
  unfold touched_cells. apply in_flat_map. exists w. rewrite K'. split; [easy|right; now left].
Qed.

Lemma frame_put_free R W s f : In (AtFlight (fl_agent f) (fl_ordinal f)) W -> incl (touched_cells f) W ->
  frame R (filter own R) W s (fun t => Done (with_free (st_free t ++ [f]) t)).
Proof.
  intros I J t [S H].
  assert (X : forall u, moved W u (with_free (st_free u ++ [f]) u)).
  { intros u. split; [now repeat split|]. intros [] N; try easy.
    - cbn. rewrite filter_app. cbn. destruct (is_mark a n f) eqn:E; [|now rewrite app_nil_r].
      exfalso. apply N. unfold is_mark in E. apply andb_true_iff in E as [A B]. apply Nat.eqb_eq in A. apply Z.eqb_eq in B. now subst.
    - unfold SyncFrames.agree. rewrite !flights_flat. cbn. rewrite flat_map_app. cbn.
      destruct (touches_in W f c J) as [->|K]; [now rewrite !app_nil_r|easy].
    - unfold SyncFrames.agree. rewrite !flights_flat. cbn. rewrite flat_map_app. cbn.
      destruct (writes_in W f c J) as [->|K]; [now rewrite !app_nil_r|easy]. }
  split; [apply X|]. split; [apply X|]. split.
  - apply (shape_trans _ s); [apply shape_sym, (X s)|]. apply (shape_trans _ t); [easy|apply (X t)].
  - intros l L. apply filter_In in L as [L O]. specialize (H l L). destruct l; try easy. cbn in H |- *.
    now rewrite !filter_app, H.
Qed.

(** ** Issuing *)

Definition parts_of (s : state) (a : nat) (env : nat -> Z) (effects : list effect) : outcome (list (list flight_access)) :=
  each (fun e =>
    let* (cells, tile) := resolve p s a env e in
    let extent := if ef_accumulates e then Some (hd (O, 0) cells, Z.of_nat (length cells)) else None in
    Done (map (fun c => FlightAccess c (ef_write e) tile (ef_proxy e) extent (kind_of p a e)) cells)) effects.

Lemma reads_parts R s a env effects : incl (alive_list p a effects) R -> reads R s (fun t => parts_of t a env effects).
Proof.
  intros I. apply (reads_each p R s (fun e t => let* (cells, tile) := resolve p t a env e in
    let extent := if ef_accumulates e then Some (hd (O, 0) cells, Z.of_nat (length cells)) else None in
    Done (map (fun c => FlightAccess c (ef_write e) tile (ef_proxy e) extent (kind_of p a e)) cells))). intros e M t N.
  now rewrite (reads_resolve p R s a env e effects M I t N).
Qed.

Definition issue_seen (l : list (list flight_access)) : list loc :=
  flat_map (fun w => AtContent (fa_cell w) :: (if fa_write w then AtTouch (fa_cell w) else AtWrites (fa_cell w))
                     :: proxy_seen (fa_cell w) (fa_proxy w) (fa_write w)) (concat l).
Definition issue_plain (l : list (list flight_access)) : bool := forallb (fun w => plain p (fa_cell w)) (concat l).

End Table.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** ** Engines *)

Definition effect_of (s : state) (f : flight) (early : bool) : outcome state :=
  if early then have_read p s f
  else
    let final := fl_chunks f =? 1 in
    let* s := if final then take_effect p s f else Done s in
    fold (fun s '(k, amount) =>
      let* b := usable p s (fl_agent f) k true in
      if fl_marker f then count_down p s (fl_agent f) k b amount 0
      else
        let share := amount / fl_total f in
        let part := if final then amount - share * (fl_total f - 1) else share in
        store p s (fl_agent f) k (Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b)
          (mb_transaction b - part) (mb_phase b) (mb_tokens b) (mb_observed b) (mb_armed b)))
      s (fl_completes f).

Definition rest_of (f : flight) (early : bool) : list flight :=
  if early then [with_reading f false (fl_chunks f)]
  else if fl_chunks f =? 1 then [] else [with_reading f (fl_reading f) (fl_chunks f - 1)].

Lemma finish_effect s f early : finish p s f early = bind (effect_of s f early) (fun s' => Done (s', rest_of f early)).
Proof.
  unfold finish, effect_of, rest_of. destruct early; [easy|]. cbv zeta.
  destruct (if fl_chunks f =? 1 then take_effect p s f else Done s) as [u| |]; cbn [bind]; easy.
Qed.

(** What the effect on memory changes. *)
Definition effect_changed (f : flight) (early : bool) : list loc :=
  if early then [] else
  if fl_chunks f =? 1 then flat_map (fun w =>
     match fa_write w, is_generic (fa_proxy w) with
     | true, true => [AtContent (fa_cell w); AtWriters (fa_cell w); AtWriter (fa_cell w) engine]
     | true, false => [AtContent (fa_cell w)]
     | false, true => [AtReaders (fa_cell w); AtReader (fa_cell w) engine]
     | false, false => [] end) (fl_accesses f) else [].
Definition flight_plain (f : flight) : bool := forallb (fun w => plain p (fa_cell w)) (fl_accesses f).


Lemma frame_have_read R W s f : flight_plain f = true -> frame R R W s (fun t => have_read p t f).
Proof.
  intros P. unfold have_read. apply frame_fold. intros w u I.
  destruct (fa_write w || is_generic (fa_proxy w)); [now apply frame_done|].
  apply (frame_cell p R W u (fa_cell w) (fun h => outside p h (fa_cell w) 0)). apply outside_change.
  unfold flight_plain in P. rewrite forallb_forall in P. now apply P.
Qed.

Lemma frame_take_effect R W s f : flight_plain f = true -> fl_chunks f =? 1 = true -> incl (effect_changed f false) W ->
  frame R R W s (fun t => take_effect p t f).
Proof.
  intros P C I. unfold take_effect.
  apply (frame_bind p R R R W s (fun t => if fl_reading f then have_read p t f else Done t)).
  { destruct (fl_reading f); [now apply frame_have_read|now apply frame_done]. }
  intros u _. apply frame_fold. intros w v J.
  assert (Q : plain p (fa_cell w) = true) by (unfold flight_plain in P; rewrite forallb_forall in P; now apply P).
  assert (X : incl (match fa_write w, is_generic (fa_proxy w) with
     | true, true => [AtContent (fa_cell w); AtWriters (fa_cell w); AtWriter (fa_cell w) engine]
     | true, false => [AtContent (fa_cell w)]
     | false, true => [AtReaders (fa_cell w); AtReader (fa_cell w) engine]
     | false, false => [] end) W).
  { intros l L. apply I. unfold effect_changed. rewrite C. apply in_flat_map. now exists w. }
  destruct (fa_write w), (is_generic (fa_proxy w)).
  - apply (frame_same p R R W v (fun t => bind (cell_at t (fa_cell w)) (fun h => Done (put_cell t (fa_cell w)
        (Content (kept_tile h (fa_tile w) (fa_kind w)) (add engine (co_writers h)) (co_readers h) (add engine (co_authors h)) false
        (co_marks (outside p h (fa_cell w) 1))))))).
    + intros t. unfold note_write. now destruct (cell_at t (fa_cell w)).
    + apply (frame_cell p R W v (fa_cell w) (fun h => _)).
      apply (write_change p W (fa_cell w) tt engine (fun h => kept_tile h (fa_tile w) (fa_kind w))); try easy.
      * intros h g. apply kept_core.
      * apply X. now left.
      * apply X. right. now left.
      * apply X. right. right. now left.
  - apply (frame_cell p R W v (fa_cell w) (fun h => _)).
    apply (engine_change p W (fa_cell w) (fun h => kept_tile h (fa_tile w) (fa_kind w))); [easy| |apply X; now left].
    intros h g. apply kept_core.
  - unfold note_read. apply (frame_cell p R W v (fa_cell w) (fun h => _)). apply read_change; [easy|apply X; now left|apply X; right; now left].
  - now apply frame_done.
Qed.

(** What an engine does to memory and barriers leaves what is in flight as it is. *)
Definition quiet (f : state -> outcome state) : Prop :=
  forall s t, f s = Done t -> st_free t = st_free s /\ st_queues t = st_queues s.

Lemma quiet_bind f g : quiet f -> quiet g -> quiet (fun s => bind (f s) g).
Proof.
  intros F G s t. destruct (f s) as [u| |] eqn:E; cbn [bind]; [|easy..]. intros H.
  destruct (F s u E) as [A B], (G u t H) as [A' B']. split; congruence.
Qed.
Lemma quiet_fold {A} (f : state -> A -> outcome state) l : (forall x, quiet (fun s => f s x)) -> quiet (fun s => fold f s l).
Proof.
  intros H. induction l as [|x l IH]; cbn [fold]; [now intros s t [= <-]|]. apply (quiet_bind (fun s => f s x)); auto.
Qed.
Lemma quiet_done : quiet Done.
Proof. now intros s t [= <-]. Qed.
Lemma quiet_pure {A} (x : state -> outcome A) g : (forall a, quiet (g a)) -> quiet (fun s => bind (x s) (fun a => g a s)).
Proof. intros H s t. destruct (x s) as [a| |]; cbn [bind]; [|easy..]. apply H. Qed.
Lemma quiet_cell c f : quiet (fun s => bind (cell_at s c) (fun h => Done (put_cell s c (f h)))).
Proof. apply (quiet_pure (fun s => cell_at s c) (fun h s => Done (put_cell s c (f h)))). now intros h s t [= <-]. Qed.

Lemma quiet_store a k b : quiet (fun s => store p s a k b).
Proof.
  unfold store. apply (quiet_pure (fun _ => _) (fun _ s => _)). intros _. apply (quiet_pure (fun _ => _) (fun _ s => _)).
  intros _ s t. now intros [= <-].
Qed.

Lemma quiet_effect f early : quiet (fun s => effect_of s f early).
Proof.
  assert (H : quiet (fun s => have_read p s f)).
  { unfold have_read. apply quiet_fold. intros w. destruct (_ || _); [apply quiet_done|]. apply (quiet_cell _ (fun h => _)). }
  unfold effect_of. destruct early; [easy|]. apply (quiet_bind (fun s => if fl_chunks f =? 1 then take_effect p s f else Done s)).
  - destruct (fl_chunks f =? 1); [|apply quiet_done]. unfold take_effect.
    apply (quiet_bind (fun s => if fl_reading f then have_read p s f else Done s)); [destruct (fl_reading f); [easy|apply quiet_done]|].
    apply quiet_fold. intros w. destruct (fa_write w), (is_generic (fa_proxy w)).
    + intros s t. unfold note_write. destruct (cell_at s (fa_cell w)); cbn [bind]; [|easy..]. now intros [= <-].
    + apply (quiet_cell _ (fun h => _)).
    + unfold note_read. apply (quiet_cell _ (fun h => _)).
    + apply quiet_done.
  - apply quiet_fold. intros [k amount]. apply (quiet_pure (fun s => usable p s (fl_agent f) k true) (fun b s => _)). intros b.
    destruct (fl_marker f); [|apply quiet_store]. unfold count_down. apply (quiet_pure (fun _ => _) (fun _ s => _)). intros _.
    apply (quiet_pure (fun _ => _) (fun _ s => _)). intros _. apply quiet_store.
Qed.

Lemma find_filter {A} (P : A -> bool) l : List.find P l = hd_error (filter P l).
Proof. induction l as [|x l IH]; cbn; [easy|]. now destruct (P x). Qed.

Lemma rest_mark f early a n g : In g (rest_of f early) -> is_mark a n g = is_mark a n f.
Proof.
  unfold rest_of. destruct early; [now intros [<-|[]]|]. destruct (fl_chunks f =? 1); [easy|]. now intros [<-|[]].
Qed.

Lemma rest_touches f early g : In g (rest_of f early) -> incl (touched_cells g) (touched_cells f).
Proof.
  unfold rest_of. destruct early; [now intros [<-|[]]|]. destruct (fl_chunks f =? 1); [easy|]. now intros [<-|[]].
Qed.

Lemma replaced_marks a n b m rest l : (forall g, In g rest -> is_mark a n g = true) -> (b, m) <> (a, n) ->
  filter (is_mark b m) (replaced a n rest l) = filter (is_mark b m) l.
Proof.
  intros H N. assert (D : forall g, is_mark a n g = true -> is_mark b m g = false).
  { intros g. unfold is_mark. rewrite andb_true_iff, Nat.eqb_eq, Z.eqb_eq. intros [<- <-].
    destruct (Nat.eqb_spec (fl_agent g) b) as [<-|]; [|easy]. destruct (Z.eqb_spec (fl_ordinal g) m) as [<-|]; [|easy]. now contradict N. }
  assert (E : filter (is_mark b m) rest = []).
  { induction rest as [|g r IH]; cbn; [easy|]. rewrite (D g) by (apply H; now left). apply IH. intros x X. apply H. now right. }
  unfold replaced. induction l as [|f l IH]; cbn [flat_map filter]; [easy|]. rewrite filter_app, IH. destruct (is_mark a n f) eqn:F.
  - now rewrite E, (D f F).
  - cbn. now destruct (is_mark b m f).
Qed.

Lemma replaced_same a n rest l l' : filter (is_mark a n) l = filter (is_mark a n) l' ->
  (forall g, In g rest -> is_mark a n g = true) ->
  filter (is_mark a n) (replaced a n rest l) = filter (is_mark a n) (replaced a n rest l').
Proof.
  intros E H. assert (R : forall l, filter (is_mark a n) (replaced a n rest l) = flat_map (fun _ => rest) (filter (is_mark a n) l)).
  { clear l l' E. assert (F : filter (is_mark a n) rest = rest).
    { induction rest as [|g r IH]; cbn; [easy|]. rewrite (H g) by now left. f_equal. apply IH. intros x X. apply H. now right. }
    induction l as [|f l IH]; cbn; [easy|]. unfold replaced in *. cbn. rewrite filter_app, IH. destruct (is_mark a n f) eqn:G; cbn.
    - now rewrite F.
    - now rewrite G. }
  now rewrite !R, E.
Qed.

Lemma replaced_flat {X} (h : flight -> list X) a n rest l : (forall g, In g rest -> h g = []) ->
  (forall g, In g l -> is_mark a n g = true -> h g = []) -> flat_map h (replaced a n rest l) = flat_map h l.
Proof.
  intros H K. assert (E : flat_map h rest = []).
  { induction rest as [|g r IH]; cbn; [easy|]. rewrite H by now left. apply IH. intros x X'. apply H. now right. }
  induction l as [|f l IH]; [easy|]. unfold replaced in *. cbn. rewrite flat_map_app, IH by (intros g G; apply K; now right).
  destruct (is_mark a n f) eqn:F.
  - now rewrite E, (K f (or_introl eq_refl) F).
  - cbn. now rewrite app_nil_r.
Qed.

Lemma frame_replace_free R W s a n rest : In (AtFlight a n) R -> In (AtFlight a n) W ->
  (forall g, In g rest -> is_mark a n g = true /\ incl (touched_cells g) W) ->
  incl (flat_map touched_cells (filter (is_mark a n) (st_free s))) W ->
  frame R (filter own R) W s (fun t => Done (with_free (replaced a n rest (st_free t)) t)).
Proof.
  intros I J H T t [S N]. pose proof (N _ I) as E. cbn in E.
  assert (Q : forall u, filter (is_mark a n) (st_free u) = filter (is_mark a n) (st_free s) -> forall g, In g (st_free u) -> is_mark a n g = true ->
    incl (touched_cells g) W).
  { intros u F g G M l L. apply T, in_flat_map. exists g. split; [|easy]. rewrite <- F. now apply filter_In. }
  assert (X : forall u, filter (is_mark a n) (st_free u) = filter (is_mark a n) (st_free s) ->
    moved W u (with_free (replaced a n rest (st_free u)) u)).
  { intros u F. split; [now repeat split|]. intros [] O; try easy.
    - cbn. symmetry. apply replaced_marks; [intros g G; now apply H|]. intros [= -> ->]. easy.
    - unfold SyncFrames.agree. rewrite !flights_flat. cbn. f_equal. symmetry. apply replaced_flat.
      + intros g G. destruct (H g G) as [_ M]. now destruct (touches_in W g c M).
      + intros g G M. now destruct (touches_in W g c (Q u F g G M)).
    - unfold SyncFrames.agree. rewrite !flights_flat. cbn. f_equal. symmetry. apply replaced_flat.
      + intros g G. destruct (H g G) as [_ M]. now destruct (writes_in W g c M).
      + intros g G M. now destruct (writes_in W g c (Q u F g G M)). }
  split; [now apply X|]. split; [now apply X|]. split.
  - apply (shape_trans _ s); [apply shape_sym, (X s eq_refl)|]. apply (shape_trans _ t); [easy|apply (X t)]. easy.
  - intros l L. apply filter_In in L as [L O]. specialize (N l L). destruct l; try easy. cbn in N |- *.
    destruct (Nat.eq_dec a0 a) as [->|D]; [destruct (Z.eq_dec n0 n) as [->|D]|].
    + apply replaced_same; [easy|]. intros g G. now apply H.
    + rewrite !replaced_marks; try easy; try (intros g G; now apply H); now intros [= ->].
    + rewrite !replaced_marks; try easy; try (intros g G; now apply H); now intros [= -> ->].
Qed.

End Table.

Section Table.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** *** In a queue *)

Definition finished (d : queue) (a : nat) (n : Z) (rest : list flight) (g : groups) : groups :=
  retired d (map (replaced a n rest) (gr_closed g)) (replaced a n rest (gr_open g)).

Fixpoint distinct (l : list (nat * nat)) : bool :=
  match l with [] => true | k :: l => negb (existsb (same_pair k) l) && distinct l end.

Lemma distinct_find {V} P (l : list (nat * nat * V)) k g : distinct (map fst l) = true -> List.find P l = Some (k, g) ->
  find same_pair k l = Some g.
Proof.
  induction l as [|[h v] l IH]; cbn; [easy|]. intros D. apply andb_true_iff in D as [D E]. destruct (P (h, v)).
  - intros [= -> ->]. now rewrite same_pair_refl.
  - intros F. destruct (same_pair k h) eqn:S; [|now apply IH]. apply same_pair_eq in S. subst h. exfalso.
    apply negb_true_iff in D. apply find_some in F as [F _].
    assert (X : existsb (same_pair k) (map fst l) = true).
    { apply existsb_exists. exists k. split; [|apply same_pair_refl]. apply in_map_iff. now exists (k, g). }
    congruence.
Qed.

Lemma where_finds a n s k : where_ a n s = Some k -> exists g, List.find (holds_mark a n) (st_queues s) = Some (k, g).
Proof. unfold where_. destruct (List.find (holds_mark a n) (st_queues s)) as [[h g]|]; [|easy]. cbn. intros [= ->]. now exists g. Qed.

Lemma engine_step_queue s a n owner q d g f early : distinct (map fst (st_queues s)) = true -> queue_decl p q = Done d ->
  List.find (is_mark a n) (st_free s) = None -> where_ a n s = Some (owner, q) -> find same_pair (owner, q) (st_queues s) = Some g ->
  List.find (is_mark a n) (contents g) = Some f ->
  engine_step p s a n early = bind (effect_of p s f early) (fun u =>
    Done (with_queues (put same_pair (owner, q) (finished d a n (rest_of f early) g) (st_queues u)) u)).
Proof.
  intros D QD F0 Wh G F. destruct (where_finds a n s _ Wh) as (h & E). pose proof (distinct_find _ _ _ _ D E) as X.
  rewrite G in X. injection X as <-. unfold engine_step. rewrite F0. unfold holds_mark in E. cbv zeta. rewrite E. cbn [got bind].
  unfold contents in F. rewrite QD, F. cbn [got bind]. rewrite finish_effect.
  destruct (effect_of p s f early) as [v| |] eqn:Z; cbn [bind]; [|easy..].
  now destruct (quiet_effect p f early s v Z) as [_ ->].
Qed.

(** ** Fences *)

Definition fence_cells (a : nat) (kind : fence_kind) (spaces : list space) : list cell :=
  flat_map (fun b => if covers p a kind spaces b then flat_map (fun stage => cells_of b stage None) (below (bu_stages b)) else []) (pr_buffers p).
Definition fence_changed (a : nat) (kind : fence_kind) (c : cell) : list loc :=
  match kind with
  | FenceAsync => [AtMarks c; AtWriters c; AtReaders c; AtWriter c engine; AtReader c engine; AtWriter c (Z.of_nat a); AtReader c (Z.of_nat a)]
  | _ => [AtContent c]
  end.
Definition simple_fence (kind : fence_kind) : bool :=
  match kind with FenceAsync | FenceMapRelease | FenceMapAcquire => true | _ => false end.

Lemma inside_without n gone l : inside n (without gone l) = inside n l && negb (inside n gone).
Proof.
  unfold without. induction l as [|h l IH]; [easy|]. cbn [filter].
  assert (C : forall m, inside n (h :: m) = (n =? h) || inside n m) by easy. rewrite (C l).
  destruct (negb (inside h gone)) eqn:G; [rewrite C|]; rewrite IH; destruct (Z.eqb_spec n h) as [E|N]; cbn [orb]; try easy;
    subst h; rewrite G; cbn; now rewrite ?andb_false_r.
Qed.

Lemma fence_change W a kind c : simple_fence kind = true -> incl (fence_changed a kind c) W ->
  cell_change W c (fenced p kind a (add engine [Z.of_nat a]) c).
Proof.
  intros K I. set (gone := add engine [Z.of_nat a]).
  destruct kind; try easy; cbn [fence_changed] in I; unfold fenced; cbv zeta beta iota; constructor; cbn [co_writers co_readers]; try easy.
  - intros h g E. cbn [co_marks]. now rewrite E.
  - intros h g n E. now rewrite !inside_without, E.
  - intros h g n E. now rewrite !inside_without, E.
  - now intros h g ->.
  - now intros h g ->.
  - assert (C1 : In (AtMarks c) W) by (apply I; now left). assert (C2 : In (AtWriters c) W) by (apply I; cbn; tauto).
    assert (C3 : In (AtReaders c) W) by (apply I; cbn; tauto).
    assert (G : forall n, inside n gone = true -> In (AtWriter c n) W /\ In (AtReader c n) W).
    { intros n. unfold gone. rewrite inside_add. cbn [inside existsb]. rewrite orb_false_r, orb_true_iff, !Z.eqb_eq.
      intros [->| ->]; split; apply I; cbn; tauto. }
    intros h. repeat split; auto; intros n; rewrite inside_without; (destruct (inside n gone) eqn:O; [right; now apply G|left; cbn; now rewrite andb_true_r]).
  - intros h g E. unfold core in *. injection E as E1 E2 E3. rewrite <- E2. destruct (is_empty (co_authors h)); [congruence|].
    cbn [co_tile co_authors co_released]. congruence.
  - intros h g E. now destruct (is_empty (co_authors h)), (is_empty (co_authors g)).
  - intros h g n E. now destruct (is_empty (co_authors h)), (is_empty (co_authors g)).
  - intros h g n E. now destruct (is_empty (co_authors h)), (is_empty (co_authors g)).
  - intros h g E. now destruct (is_empty (co_authors h)), (is_empty (co_authors g)).
  - intros h g E. now destruct (is_empty (co_authors h)), (is_empty (co_authors g)).
  - assert (C1 : In (AtContent c) W) by (apply I; now left). intros h. destruct (is_empty (co_authors h)); repeat split; auto.
  - intros h g E. unfold core in *. cbn [co_tile co_authors co_released]. congruence.
  - assert (C1 : In (AtContent c) W) by (apply I; now left). intros h. repeat split; auto.
Qed.

Lemma frame_fence R W s a kind spaces : simple_fence kind = true -> po_path (pr_policies p) = false ->
  incl (flat_map (fence_changed a kind) (fence_cells a kind spaces)) W ->
  frame R R W s (fun t => fence p t a kind spaces).
Proof.
  intros K P I.
  apply (frame_same p R R W s (fun t => fold (fun t b => if covers p a kind spaces b then
      fold (fun t c => bind (cell_at t c) (fun h => Done (put_cell t c (fenced p kind a (add engine [Z.of_nat a]) c h)))) t
        (flat_map (fun stage => cells_of b stage None) (below (bu_stages b))) else Done t) t (pr_buffers p))).
  { intros t. unfold fence. rewrite P. now destruct kind. }
  apply frame_fold. intros b u B. destruct (covers p a kind spaces b) eqn:C; [|now apply frame_done].
  apply frame_fold. intros c v M. apply (frame_cell p R W v c (fun h => _)). apply fence_change; [easy|].
  intros l L. apply I, in_flat_map. exists c. split; [|easy]. apply in_flat_map. exists b. split; [easy|]. now rewrite C.
Qed.
End Table.
