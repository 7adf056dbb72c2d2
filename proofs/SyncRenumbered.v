(** States that differ in their numbers alone: the whole step function does the same to both.

    Renumbered are the values of agents ([place]), the phases of each barrier (lower by [fall]), the tiles in each
    storage ([tile], one to one), and the operations in flight of each agent (lower by [back]). Arrays turn: each barrier is the one
    that [turn] names, each cell the one that [spin] names, one to one in its array and in its buffer. If expressions fit
    the renumbering, and control flow goes the same way ([fitting]), then a renumbered state has the
    same steps, renumbered, with the same faults and results; and no state tells the two apart. *)

From Coq Require Import Bool ZArith Lia List Permutation.
From Titan Require Import Expression AnyNumber Sync SyncShift.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

(** ** Outcomes *)

Definition omap {A B} (f : A -> B) (x : outcome A) : outcome B :=
  match x with Done a => Done (f a) | Faulty k l => Faulty k l | Undefined => Undefined end.

Lemma omap_same {A} (x : outcome A) : omap (fun a => a) x = x.
Proof. now destruct x. Qed.

Lemma each_mapped {A B C D} (f : A -> outcome B) (g : C -> outcome D) (m : A -> C) (h : B -> D) l :
  (forall x, In x l -> g (m x) = omap h (f x)) -> each g (map m l) = omap (map h) (each f l).
Proof.
  induction l as [|x l IH]; intros H; cbn [each map]; [easy|]. rewrite H by now left.
  destruct (f x); cbn [omap bind]; [|easy..]. rewrite IH by (intros y Y; apply H; now right).
  now destruct (each f l).
Qed.

Lemma each_kept {A B C} (f : A -> outcome B) (g : C -> outcome B) (m : A -> C) l :
  (forall x, In x l -> g (m x) = f x) -> each g (map m l) = each f l.
Proof.
  intros H. rewrite (each_mapped f g m (fun b => b)).
  - destruct (each f l); cbn; now rewrite ?map_id.
  - intros x X. rewrite H by easy. now rewrite omap_same.
Qed.

Lemma each_in {A B} (f : A -> outcome B) l : forall bs b, each f l = Done bs -> In b bs ->
  exists a, In a l /\ f a = Done b.
Proof.
  induction l as [|a l IH]; intros bs b; cbn [each]; [now intros [= <-]|].
  destruct (f a) as [c| |] eqn:F; [|easy..]. cbn [bind]. destruct (each f l) as [cs| |]; [|easy..].
  intros [= <-] [<-|I].
  - exists a. split; [now left|easy].
  - destruct (IH cs b eq_refl I) as (d & D & E). exists d. split; [now right|easy].
Qed.

Lemma fold_mapped {A B S T} (f : S -> A -> outcome S) (g : T -> B -> outcome T) (m : A -> B) (h : S -> T) l :
  (forall s x, In x l -> g (h s) (m x) = omap h (f s x)) ->
  forall s, fold g (h s) (map m l) = omap h (fold f s l).
Proof.
  induction l as [|x l IH]; intros H s; cbn [fold map]; [easy|]. rewrite H by now left.
  destruct (f s x); cbn [omap bind]; [|easy..]. apply IH. intros t y Y. apply H. now right.
Qed.

Lemma fold_same {A S T} (f : S -> A -> outcome S) (g : T -> A -> outcome T) (h : S -> T) l :
  (forall s x, In x l -> g (h s) x = omap h (f s x)) ->
  forall s, fold g (h s) l = omap h (fold f s l).
Proof.
  intros H s. rewrite <- (map_id l) at 1. apply (fold_mapped f g (fun x => x)). now intros t x X; apply H.
Qed.

Lemma find_mapped {A B} (f : A -> bool) (g : B -> bool) (m : A -> B) l :
  (forall x, g (m x) = f x) -> List.find g (map m l) = option_map m (List.find f l).
Proof. intros H. induction l as [|x l IH]; cbn; [easy|]. rewrite H. now destruct (f x). Qed.

Lemma exists_mapped {A B} (f : A -> bool) (g : B -> bool) (m : A -> B) l :
  (forall x, g (m x) = f x) -> existsb g (map m l) = existsb f l.
Proof. intros H. induction l as [|x l IH]; cbn; [easy|]. now rewrite H, IH. Qed.

Lemma all_mapped {A B} (f : A -> bool) (g : B -> bool) (m : A -> B) l :
  (forall x, g (m x) = f x) -> forallb g (map m l) = forallb f l.
Proof. intros H. induction l as [|x l IH]; cbn; [easy|]. now rewrite H, IH. Qed.

Lemma filter_mapped {A B} (f : A -> bool) (g : B -> bool) (m : A -> B) l :
  (forall x, g (m x) = f x) -> filter g (map m l) = map m (filter f l).
Proof. intros H. induction l as [|x l IH]; cbn; [easy|]. rewrite H, IH. now destruct (f x). Qed.

Lemma empty_mapped {A B} (m : A -> B) l : is_empty (map m l) = is_empty l.
Proof. now destruct l. Qed.

(** ** Tables and lists by number *)

Section Tables.
Context {K V W : Type} (same : K -> K -> bool) (m : K -> K) (h : K -> V -> W).
Hypothesis same_eq : forall k g, same k g = true -> k = g.
Hypothesis same_m : forall k g, same (m k) (m g) = same k g.
Definition entry_mapped (e : K * V) : K * W := (m (fst e), h (fst e) (snd e)).

Lemma find_entry k l : find same (m k) (map entry_mapped l) = option_map (h k) (find same k l).
Proof.
  induction l as [|[g v] l IH]; cbn; [easy|]. rewrite same_m. destruct (same k g) eqn:E; [|easy].
  apply same_eq in E. now subst.
Qed.

Lemma put_entry k v l : put same (m k) (h k v) (map entry_mapped l) = map entry_mapped (put same k v l).
Proof.
  induction l as [|[g w] l IH]; cbn; [easy|]. rewrite same_m. destruct (same k g) eqn:E; [easy|]. cbn. now rewrite IH.
Qed.
End Tables.

Section Numbered.
Context {A B : Type} (f : nat -> A -> B).
Fixpoint mapi (n : nat) (l : list A) : list B :=
  match l with [] => [] | x :: l => f n x :: mapi (S n) l end.

Lemma nth_mapi i : forall n l, nth_error (mapi n l) i = option_map (f (n + i)%nat) (nth_error l i).
Proof.
  induction i as [|i IH]; intros n [|x l]; cbn; try easy; [now rewrite Nat.add_0_r|].
  rewrite IH. now replace (S n + i)%nat with (n + S i)%nat by lia.
Qed.

Lemma set_mapi i : forall n v l, set_nth i (f (n + i)%nat v) (mapi n l) = mapi n (set_nth i v l).
Proof.
  induction i as [|i IH]; intros n v [|x l]; cbn; try easy; [now rewrite Nat.add_0_r|].
  rewrite <- (IH (S n)). now replace (S n + i)%nat with (n + S i)%nat by lia.
Qed.

Lemma seq_mapi n l : combine (seq n (length (mapi n l))) (mapi n l) =
  map (fun e => (fst e, f (fst e) (snd e))) (combine (seq n (length l)) l).
Proof. revert n. induction l as [|x l IH]; intros n; cbn; [easy|]. now rewrite IH. Qed.
End Numbered.

Lemma numbered_mapi {A B} (f : nat -> A -> B) l :
  numbered (mapi f 0 l) = map (fun e => (fst e, f (fst e) (snd e))) (numbered l).
Proof. apply seq_mapi. Qed.

Lemma in_numbered {A} (l : list A) : forall a q, In (a, q) (numbered l) -> nth_error l a = Some q.
Proof.
  intros a q. unfold numbered.
  enough (H : forall l n, In (a, q) (combine (seq n (length l)) l) -> exists i, a = (n + i)%nat /\ nth_error l i = Some q).
  { intros I. destruct (H l O I) as (i & -> & E). easy. }
  clear l. induction l as [|x l IH]; intros n; cbn; [easy|]. intros [[= -> ->]|I].
  - exists O. split; [lia|easy].
  - destruct (IH (S n) I) as (i & -> & E). exists (S i). split; [lia|easy].
Qed.

(** ** The renumbering *)

Section Renumbered.
Variable p : program.
Variable place : nat -> position -> position.
Variable fall : key -> Z.
Variable tile : nat -> Z -> Z.
Variable back : nat -> Z.
Variable turn : key -> key.       (* of an array of barriers *)
Variable spin : cell -> cell.     (* of the stages of buffers *)
Hypothesis turn_array : forall k, fst (turn k) = fst k.
Hypothesis turn_one : forall k h, same_key (turn k) (turn h) = same_key k h.
Hypothesis spin_storage : forall c, fst (spin c) = fst c.
Hypothesis spin_one : forall c d, same_key (spin c) (spin d) = same_key c d.
Definition all_cells (b : buffer) : list cell := flat_map (fun stage => cells_of b stage None) (below (bu_stages b)).
Hypothesis spin_buffer : forall b, In b (pr_buffers p) -> NoDup (all_cells b) /\ Permutation (map spin (all_cells b)) (all_cells b).
Hypothesis place_frames : forall a q, frames (place a q) = frames q.
Hypothesis tile_any : forall c, tile c any_tile = any_tile.
Hypothesis tile_one : forall c t u, tile c t = tile c u -> t = u.

Definition re_phase (k : key) (b : mbarrier) : mbarrier :=
  Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b) (mb_transaction b)
    (mb_phase b - fall k) (mb_tokens b) (mb_observed b) (mb_armed b).
Definition re_content (c : cell) (h : content) : content :=
  Content (tile (fst c) (co_tile h)) (co_writers h) (co_readers h) (co_authors h) (co_released h) (co_marks h).
Definition re_extent (e : option (cell * Z)) : option (cell * Z) := option_map (fun x => (spin (fst x), snd x)) e.
Definition re_access (w : flight_access) : flight_access :=
  FlightAccess (spin (fa_cell w)) (fa_write w) (tile (fst (fa_cell w)) (fa_tile w)) (fa_proxy w) (re_extent (fa_extent w)) (fa_kind w).
Definition re_flight (f : flight) : flight :=
  Flight (fl_agent f) (fl_ordinal f - back (fl_agent f)) (fl_site f) (map re_access (fl_accesses f))
    (map (fun c => (turn (fst c), snd c)) (fl_completes f)) (fl_reading f) (fl_chunks f) (fl_total f) (fl_marker f) (fl_queue f).
Definition re_groups (_ : nat * nat) (g : groups) : groups :=
  Groups (map (map re_flight) (gr_closed g)) (map re_flight (gr_open g)).

Definition same (k : nat * nat) := k.
Definition re (s : state) : state :=
  State (mapi place 0 (st_positions s)) (mapi (fun a n => n - back a) 0 (st_issued s))
    (map (entry_mapped turn re_phase) (st_barriers s)) (st_named s) (map (entry_mapped spin re_content) (st_cells s))
    (map (entry_mapped same re_groups) (st_queues s)) (map re_flight (st_free s)) (st_pools s).

Definition re_step (x : step_) : step_ :=
  match x with
  | AgentStep a => AgentStep a
  | FinishStep a n => FinishStep a (n - back a)
  | ReadsStep a n => ReadsStep a (n - back a)
  end.

Lemma same_key_eq' k h : same_key k h = true -> k = h.
Proof. apply same_key_eq. Qed.
Lemma same_pair_eq k h : same_pair k h = true -> k = h.
Proof.
  destruct k, h. unfold same_pair. cbn. rewrite andb_true_iff, !Nat.eqb_eq. now intros [-> ->].
Qed.

Lemma barrier_re s k : find same_key (turn k) (st_barriers (re s)) = option_map (re_phase k) (find same_key k (st_barriers s)).
Proof. now apply find_entry; [apply same_key_eq'|]. Qed.
Lemma queue_re s k : find same_pair k (st_queues (re s)) = option_map (re_groups k) (find same_pair k (st_queues s)).
Proof. now apply (find_entry same_pair same); [apply same_pair_eq|]. Qed.
Lemma cell_re s c : cell_at (re s) (spin c) = omap (re_content c) (cell_at s c).
Proof. unfold cell_at. cbn. rewrite find_entry by (apply same_key_eq' || easy). now destruct (find same_key c (st_cells s)). Qed.

Lemma put_barrier_re s k b : put_barrier (re s) (turn k) (re_phase k b) = re (put_barrier s k b).
Proof. unfold put_barrier, with_barriers, re. cbn. now rewrite put_entry by easy. Qed.
Lemma put_cell_re s c h : put_cell (re s) (spin c) (re_content c h) = re (put_cell s c h).
Proof. unfold put_cell, with_cells, re. cbn. now rewrite put_entry by easy. Qed.
Lemma put_queue_re s k g : with_queues (put same_pair k (re_groups k g) (st_queues (re s))) (re s) =
  re (with_queues (put same_pair k g (st_queues s)) s).
Proof. unfold with_queues, re. cbn. now rewrite <- (put_entry same_pair same) by easy. Qed.

Lemma position_re s a : nth_error (st_positions (re s)) a = option_map (place a) (nth_error (st_positions s) a).
Proof. cbn. now rewrite nth_mapi. Qed.

Lemma queued_re l : flat_map (fun e : (nat * nat) * groups => concat (gr_closed (snd e)) ++ gr_open (snd e))
    (map (entry_mapped same re_groups) l) =
  map re_flight (flat_map (fun e : (nat * nat) * groups => concat (gr_closed (snd e)) ++ gr_open (snd e)) l).
Proof.
  induction l as [|e l IH]; cbn; [easy|]. now rewrite IH, !map_app, concat_map.
Qed.

Lemma flights_re s : flights (re s) = map re_flight (flights s).
Proof. unfold flights. cbn. now rewrite queued_re, map_app. Qed.

(** ** What does not look at numbers *)

Lemma places_re (f : agent * position -> bool) l :
  (forall g q q', frames q = frames q' -> f (g, q) = f (g, q')) -> forall gs a,
  existsb f (combine gs (mapi place a l)) = existsb f (combine gs l) /\
  forallb f (combine gs (mapi place a l)) = forallb f (combine gs l).
Proof.
  intros H. induction l as [|q l IH]; intros [|g gs] a; [easy..|].
  cbn [mapi combine existsb forallb]. destruct (IH gs (S a)) as [-> ->].
  now rewrite (H g _ q (place_frames a q)).
Qed.

Lemma ended_re s cta : ended p (re s) cta = ended p s cta.
Proof.
  destruct (places_re (fun e => ag_cta (fst e) =? cta) (st_positions s)
    (fun _ _ _ _ => eq_refl) (pr_agents p) 0%nat) as [E _].
  destruct (places_re (fun e => negb (ag_cta (fst e) =? cta) || is_empty (frames (snd e)))
    (st_positions s)
    ltac:(intros g q q' F; cbn [fst snd]; now rewrite F) (pr_agents p) 0%nat) as [_ G].
  unfold ended. cbn [re st_positions]. now rewrite E, G.
Qed.

Lemma alive_re s a cta : check_alive p (re s) a cta = check_alive p s a cta.
Proof. unfold check_alive. now rewrite ended_re. Qed.

Lemma unwaited_re s k b : unwaited p (re s) (entry_mapped turn re_phase (k, b)) = unwaited p s (k, b).
Proof. unfold unwaited, barrier_cta. cbn. now rewrite turn_array, ended_re. Qed.

Lemma exit_re s : check_exit p (re s) = check_exit p s.
Proof.
  unfold check_exit. destruct (po_exit_allowed (pr_policies p)); [easy|].
  rewrite flights_re.
  match goal with |- context [List.find ?f (flights s)] => rewrite (find_mapped f) end.
  2:{ intros f. cbn [re_flight fl_accesses fl_completes]. f_equal.
      - apply exists_mapped. intros w. cbn. rewrite spin_storage. destruct (home_of p _); [|easy]. now rewrite ended_re.
      - apply exists_mapped. intros c. unfold barrier_cta. cbn. now rewrite turn_array, ended_re. }
  destruct (List.find _ (flights s)) as [f|]; cbn [option_map]; [easy|]. cbn [re st_barriers].
  match goal with |- fold ?g tt _ = fold ?f tt ?l =>
    pose proof (fold_mapped f g (entry_mapped turn re_phase) (fun x => x) l) as H end.
  cbn beta in H. rewrite H.
  - apply omap_same.
  - intros [] [k b] _. rewrite unwaited_re. cbn [entry_mapped fst]. rewrite turn_array.
    destruct (peer_commit p (fst k)); [|easy]. now rewrite omap_same.
Qed.

(** ** Memory *)

Lemma extent_re x y : same_extent (re_extent x) (re_extent y) = same_extent x y.
Proof. destruct x as [[c n]|], y as [[d m]|]; cbn; try easy. now rewrite spin_one. Qed.
Lemma pipe_re d w write extent : pipe_keeps p d (re_access w) write (re_extent extent) = pipe_keeps p d w write extent.
Proof.
  unfold pipe_keeps. destruct d as [d|]; [|easy]. cbn [re_access fa_write fa_extent]. rewrite extent_re.
  destruct extent, (fa_extent w); easy.
Qed.

Lemma check_read_re s a c t q : check_read p (re s) a (spin c) (tile (fst c) t) q = check_read p s a c t q.
Proof.
  unfold check_read. rewrite cell_re. destruct (cell_at s c) as [h| |]; [|easy..]. cbn [omap bind].
  rewrite flights_re. cbn [re_content co_tile].
  rewrite (fold_mapped (fun held f => fold (fun held w =>
      if same_key (fa_cell w) c && fa_write w then
        if pipe_keeps p (pipe_of p f a q) w false None then Done (fa_tile w)
        else Faulty ReadBeforeArrival [a; fl_agent f]
      else Done held) held (fl_accesses f)) _ re_flight (tile (fst c))).
  - match goal with |- bind (omap _ ?x) _ = _ => destruct x as [held| |]; [|easy..] end. cbn [omap bind]. do 3 f_equal.
    + apply eq_true_iff_eq. rewrite !Z.eqb_eq. split; intros H; [|now rewrite H].
      apply (tile_one (fst c)). now rewrite tile_any.
    + apply eq_true_iff_eq. rewrite !Z.eqb_eq. split; [apply tile_one|now intros ->].
  - intros held f _. cbn [re_flight fl_accesses fl_agent]. apply fold_mapped.
    intros u w _. cbn [re_access fa_cell fa_write]. rewrite spin_one. destruct (same_key (fa_cell w) c) eqn:E; cbn [andb]; [|easy].
    apply same_key_eq in E. destruct (fa_write w) eqn:F; [|easy].
    change (pipe_of p (re_flight f) a q) with (pipe_of p f a q).
    pose proof (pipe_re (pipe_of p f a q) w false None) as P. cbn [re_extent option_map] in P. rewrite P.
    destruct (pipe_keeps _ _ w false None); [|easy]. cbn. now rewrite E.
Qed.

Lemma check_write_re s a c q extent kind : check_write p (re s) a (spin c) q (re_extent extent) kind = check_write p s a c q extent kind.
Proof.
  unfold check_write. rewrite flights_re.
  match goal with |- context [List.find ?f (flights s)] => rewrite (find_mapped f) end.
  2:{ intros f. cbn [re_flight fl_accesses fl_reading]. apply exists_mapped. intros w.
      change (pipe_of p (re_flight f) a q) with (pipe_of p f a q). rewrite pipe_re. cbn [re_access fa_kind fa_cell fa_write]. now rewrite spin_one. }
  now destruct (List.find _ (flights s)).
Qed.

Lemma check_sum_re s a c t kind : check_sum (re s) a (spin c) (tile (fst c) t) kind = check_sum s a c t kind.
Proof.
  unfold check_sum. destruct kind; [|easy]. rewrite cell_re. destruct (cell_at s c) as [h| |]; [|easy..].
  cbn [omap bind re_content co_tile]. do 3 f_equal.
  - apply eq_true_iff_eq. rewrite !Z.eqb_eq. split; intros H; [|now rewrite H].
    apply (tile_one (fst c)). now rewrite tile_any.
  - apply eq_true_iff_eq. rewrite !Z.eqb_eq. split; [apply tile_one|now intros ->].
Qed.

Lemma check_cached_re s a b c x w : check_cached p (re s) a b (spin c) x w = check_cached p s a b c x w.
Proof.
  unfold check_cached. rewrite spin_storage. destruct (is_empty _); [easy|]. rewrite cell_re. now destruct (cell_at s c).
Qed.

Lemma check_proxy_re s a c x w : check_proxy p (re s) a (spin c) x w = check_proxy p s a c x w.
Proof. unfold check_proxy. rewrite cell_re. now destruct (cell_at s c). Qed.

Lemma kept_re c h t kind : kept_tile (re_content c h) (tile (fst c) t) kind = tile (fst c) (kept_tile h t kind).
Proof. now destruct kind. Qed.

Lemma changed_re (f g : content -> content) s c : (forall h, g (re_content c h) = re_content c (f h)) ->
  bind (cell_at (re s) (spin c)) (fun h => Done (put_cell (re s) (spin c) (g h))) =
  omap re (bind (cell_at s c) (fun h => Done (put_cell s c (f h)))).
Proof.
  intros H. rewrite cell_re. destruct (cell_at s c) as [h| |]; [|easy..]. cbn [omap bind].
  now rewrite H, put_cell_re.
Qed.

Lemma note_write_re s c t who : note_write p (re s) (spin c) (tile (fst c) t) who = omap re (note_write p s c t who).
Proof. apply changed_re. intros h. unfold outside, re_content. cbn. now rewrite spin_storage. Qed.
Lemma note_read_re s c who : note_read p (re s) (spin c) who = omap re (note_read p s c who).
Proof. apply changed_re. intros h. unfold outside, re_content. cbn. now rewrite spin_storage. Qed.
Lemma note_cached_re s c t a x w : note_cached (re s) (spin c) (tile (fst c) t) a x w = omap re (note_cached s c t a x w).
Proof. apply changed_re. intros h. now destruct w. Qed.

(** ** Expressions, and what is done with them *)

Definition keeps (env env' : nat -> Z) (e : expression) : Prop := value env' e = value env e.
Definition storage_of (e : effect) : nat :=
  match nth_error (pr_buffers p) (ef_buffer e) with Some b => bu_storage b | None => O end.

(** The cells that an effect means, if they are in range. *)
Definition located (env : nat -> Z) (e : effect) (b : buffer) (a : nat) : outcome (list cell) :=
  let* stage := value env (ef_stage e) in
  let* part := optional env (ef_part e) in
  let q := match part with Some q => q | None => 0 end in
  let* _ := guard (negb ((0 <=? stage) && (stage <? bu_stages b) && (0 <=? q) && (q <? bu_parts b))) IndexOutOfRange [a] in
  Done (cells_of b stage part).

Record fits_effect (env env' : nat -> Z) (e : effect) : Prop := {
  cells_turn : forall b a, nth_error (pr_buffers p) (ef_buffer e) = Some b -> located env' e b a = omap (map spin) (located env e b a);
  tile_moves : forall x, ef_tile e = Some x -> value env' x = omap (tile (storage_of e)) (value env x) }.

Definition re_resolved (e : effect) (r : list cell * Z) : list cell * Z := (map spin (fst r), tile (storage_of e) (snd r)).

Lemma resolve_re s a env env' e : fits_effect env env' e ->
  resolve p (re s) a env' e = omap (re_resolved e) (resolve p s a env e).
Proof.
  intros [L T]. assert (E : forall s env, resolve p s a env e = let* b := got (nth_error (pr_buffers p) (ef_buffer e)) in
    let* cells := located env e b a in
    let* _ := if negb (same_space (bu_space b) Global) && negb (bu_cta b =? cta_of p a) then check_alive p s a (bu_cta b) else Done tt in
    let* tile := optional env (ef_tile e) in Done (cells, match tile with Some t => t | None => any_tile end)).
  { intros u v. unfold resolve, located. destruct (nth_error (pr_buffers p) (ef_buffer e)) as [b|]; [|easy]. cbn [got bind].
    destruct (value v (ef_stage e)) as [stage| |]; [|easy..]. cbn [bind]. destruct (optional v (ef_part e)) as [part| |]; [|easy..]. cbn [bind].
    destruct (negb _); easy. }
  rewrite !E. clear E. unfold re_resolved, storage_of in *.
  destruct (nth_error (pr_buffers p) (ef_buffer e)) as [b|]; [|easy]. cbn [got bind]. rewrite (L b a eq_refl).
  destruct (located env e b a) as [cells| |]; [|easy..]. cbn [omap bind]. rewrite alive_re.
  match goal with |- context [bind (if ?c then check_alive p s a (bu_cta b) else Done tt)] =>
    destruct (if c then check_alive p s a (bu_cta b) else Done tt) as [[]| |]; [|easy..] end. cbn [bind]. unfold optional.
  destruct (ef_tile e) as [x|]; [|cbn; now rewrite tile_any].
  rewrite (T x eq_refl). now destruct (value env x).
Qed.

Lemma resolved_in s a env e r c : resolve p s a env e = Done r -> In c (fst r) -> fst c = storage_of e.
Proof.
  unfold resolve, storage_of. destruct (nth_error (pr_buffers p) (ef_buffer e)) as [b|]; [|easy]. cbn [got bind].
  destruct (value env (ef_stage e)) as [stage| |]; [|easy..]. cbn [bind].
  destruct (optional env (ef_part e)) as [part| |]; [|easy..]. cbn [bind].
  destruct (negb _); [easy|]. cbn [guard bind].
  match goal with |- context [bind (if ?c then check_alive p s a (bu_cta b) else Done tt)] =>
    destruct (if c then check_alive p s a (bu_cta b) else Done tt) as [[]| |]; [|easy..] end. cbn [bind].
  destruct (optional env (ef_tile e)) as [t| |]; [|easy..]. cbn [bind]. intros [= <-]. cbn [fst]. unfold cells_of.
  rewrite in_flat_map. intros (q & _ & I). apply in_map_iff in I as (u & <- & _). easy.
Qed.

Lemma access_re s a env env' effects : (forall e, In e effects -> fits_effect env env' e) ->
  access p (re s) a env' effects = omap re (access p s a env effects).
Proof.
  intros F. unfold access.
  set (R := fun x : effect * (list cell * Z) => (fst x, re_resolved (fst x) (snd x))).
  assert (E : each (fun e => bind (resolve p (re s) a env' e) (fun r => Done (e, r))) effects =
    omap (map R) (each (fun e => bind (resolve p s a env e) (fun r => Done (e, r))) effects)).
  { rewrite <- (map_id effects) at 1. apply each_mapped. intros e I. rewrite resolve_re with (env := env) by auto.
    now destruct (resolve p s a env e). }
  rewrite E. match goal with |- bind (omap _ ?x) _ = _ => destruct x as [rs| |] eqn:D; [|easy..] end.
  cbn [omap bind]. clear E.
  assert (I : forall e cs t c, In (e, (cs, t)) rs -> In c cs -> fst c = storage_of e).
  { intros e cs t c X C. destruct (each_in _ _ _ _ D X) as (e' & _ & G).
    destruct (resolve p s a env e') as [r| |] eqn:H; [|easy..]. injection G as -> ->.
    now apply (resolved_in s a env e (cs, t)). }
  match goal with |- bind (each ?g (map R rs)) _ = omap re (bind (each ?f rs) _) =>
    rewrite (each_kept f g R) end.
  2:{ intros [e [cs t]] X. cbn [R fst snd re_resolved]. apply each_kept. intros c C.
      rewrite check_cached_re. destruct (check_cached _ _ _ _ _ _ _); [|easy..]. cbn [bind].
      rewrite <- (I e cs t c X C), check_sum_re, check_read_re. pose proof (check_write_re s a c None None (kind_of p a e)) as Y. cbn in Y. now rewrite Y. }
  match goal with |- bind ?x _ = _ => destruct x; [|easy..] end. cbn [bind]. apply fold_mapped. intros u [e [cs t]] X. cbn [R fst snd re_resolved].
  apply fold_mapped. intros v c C. rewrite <- (I e cs t c X C).
  destruct (is_cached (ef_proxy e)); [apply note_cached_re|].
  destruct (ef_write e); [|apply note_read_re]. rewrite cell_re.
  destruct (cell_at v c) as [h| |]; [|easy..]. cbn [omap bind]. rewrite kept_re. apply note_write_re.
Qed.

Lemma key_re env env' r : keeps env env' (snd r) -> key_of env' r = key_of env r.
Proof. intros K. unfold key_of. now rewrite K. Qed.

(** A barrier that an operation names is the one to which it turns. *)
Definition names (env env' : nat -> Z) (r : reference) : Prop := key_of env' r = omap turn (key_of env r).

Lemma declared_re s a env env' r : names env env' r -> declared (re s) a env' r = omap turn (declared s a env r).
Proof.
  intros H. unfold declared. rewrite H. destruct (key_of env r) as [k| |]; [|easy..].
  cbn [bind omap]. rewrite barrier_re. now destruct (find same_key k (st_barriers s)).
Qed.

Lemma cta_turn k : barrier_cta p (turn k) = barrier_cta p k.
Proof. unfold barrier_cta. now rewrite turn_array. Qed.

Lemma usable_re s a k e : usable p (re s) a (turn k) e = omap (re_phase k) (usable p s a k e).
Proof.
  unfold usable. rewrite barrier_re, cta_turn. destruct (find same_key k (st_barriers s)) as [b|]; [|easy].
  cbn [option_map bind got re_phase mb_status]. destruct (is_absent (mb_status b)); [easy|].
  cbn [guard bind]. destruct (_ && _); [easy|]. cbn [guard bind]. rewrite alive_re.
  destruct (negb _ || e); [|easy]. now destruct (check_alive p s a (barrier_cta p k)).
Qed.

Lemma store_re s a k b : store p (re s) a (turn k) (re_phase k b) = omap re (store p s a k b).
Proof.
  unfold store. rewrite turn_array. cbn [re_phase mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase
    mb_tokens mb_observed mb_armed].
  destruct (transaction_max <? Z.abs (mb_transaction b)); [easy|]. cbn [guard bind].
  destruct ((mb_pending b =? 0) && (mb_transaction b <? 0)); [easy|]. cbn [guard bind omap].
  rewrite <- put_barrier_re. do 2 f_equal.
  destruct ((mb_pending b =? 0) && (mb_transaction b =? 0)); [|easy]. unfold re_phase. cbn. f_equal. lia.
Qed.

Lemma count_down_re s a k b n t : count_down p (re s) a (turn k) (re_phase k b) n t = omap re (count_down p s a k b n t).
Proof.
  unfold count_down. cbn [re_phase mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase
    mb_tokens mb_observed mb_armed].
  destruct (negb _); [easy|]. cbn [guard bind]. destruct (_ && negb (po_run_ahead _)); [easy|]. cbn [guard bind].
  now rewrite <- store_re.
Qed.

Lemma arrive_re s a env env' r count bytes drop token :
  names env env' r -> keeps env env' count -> keeps env env' bytes ->
  arrive p (re s) a env' r count bytes drop token = omap re (arrive p s a env r count bytes drop token).
Proof.
  intros R C B. unfold arrive. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite usable_re.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [omap bind]. rewrite C.
  destruct (value env count) as [n| |]; [|easy..]. cbn [bind]. rewrite B.
  destruct (value env bytes) as [t| |]; [|easy..]. cbn [bind]. now rewrite <- count_down_re.
Qed.

Lemma expect_re s a env env' r bytes : names env env' r -> keeps env env' bytes ->
  expect p (re s) a env' r bytes = omap re (expect p s a env r bytes).
Proof.
  intros R B. unfold expect. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite usable_re.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [omap bind re_phase mb_pending].
  destruct (mb_pending b =? 0); [easy|]. cbn [guard bind]. rewrite B.
  destruct (value env bytes) as [t| |]; [|easy..]. cbn [bind]. now rewrite <- store_re.
Qed.

(** Of a wait the parity falls as the phase does, but for an even number; a phase that is named falls with it. *)
Definition fits_phase (env env' : nat -> Z) (r : reference) (e : expression) : Prop := forall k,
  key_of env r = Done k -> value env' e = omap (fun m => m - fall k) (value env e).
Definition fits_parity (env env' : nat -> Z) (r : reference) (e : expression) : Prop := forall k,
  key_of env r = Done k -> exists d, value env' e = omap (fun m => m - d) (value env e) /\ (d - fall k) mod 2 = 0.

Lemma declared_key s a env r k : declared s a env r = Done k -> key_of env r = Done k.
Proof.
  unfold declared. destruct (key_of env r) as [h| |]; [|easy..]. cbn [bind].
  destruct (find same_key h (st_barriers s)); [|easy]. now intros [= <-].
Qed.

Lemma wait_re s a env env' r phase : names env env' r ->
  (forall e, phase = Some e -> fits_phase env env' r e) ->
  wait p (re s) a env' r phase = omap re (wait p s a env r phase).
Proof.
  intros R P. unfold wait. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |] eqn:D; [|easy..]. apply declared_key in D. cbn [omap bind]. rewrite usable_re.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [omap bind]. unfold optional.
  destruct phase as [e|]; cbn [bind guard].
  - rewrite (P e eq_refl k D). destruct (value env e) as [m| |]; [|easy..]. cbn [omap bind re_phase mb_phase].
    replace (mb_phase b - fall k =? m - fall k + 1) with (mb_phase b =? m + 1)
      by (apply eq_true_iff_eq; rewrite !Z.eqb_eq; lia).
    destruct (mb_phase b =? m + 1); [|easy]. cbn [negb guard bind omap]. now rewrite <- put_barrier_re.
  - cbn [omap]. now rewrite <- put_barrier_re.
Qed.

Lemma token_wait_re s a env env' r : names env env' r ->
  token_wait p (re s) a env' r = omap re (token_wait p s a env r).
Proof.
  intros R. unfold token_wait. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite usable_re.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [omap bind re_phase mb_armed].
  destruct (negb _); [easy|]. cbn [guard bind omap]. now rewrite <- put_barrier_re.
Qed.

Lemma init_re s a env env' r count : names env env' r -> keeps env env' count ->
  (forall k, key_of env r = Done k -> fall k = 0) ->
  init p (re s) a env' r count = omap re (init p s a env r count).
Proof.
  intros R C Z. unfold init. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |] eqn:D; [|easy..]. apply declared_key in D. cbn [omap bind]. rewrite barrier_re.
  destruct (find same_key k (st_barriers s)) as [b|]; [|easy]. cbn [option_map got bind re_phase mb_status].
  destruct (negb _); [easy|]. cbn [guard bind]. rewrite C. destruct (value env count) as [n| |]; [|easy..].
  cbn [bind omap]. rewrite <- put_barrier_re. unfold re_phase. cbn. now rewrite (Z k D).
Qed.

Lemma enqueue_re s q f : enqueue p (re s) q (re_flight f) = omap re (enqueue p s q f).
Proof.
  unfold enqueue. cbn [re_flight fl_agent]. change (st_issued (re s)) with (mapi (fun a n => n - back a) 0 (st_issued s)).
  rewrite nth_mapi. destruct (nth_error (st_issued s) (fl_agent f)) as [n|]; [|easy]. cbn [option_map got bind].
  set (a := fl_agent f).
  assert (I : with_issued (set_nth a (n - back (0 + a)%nat + 1) (mapi (fun a n => n - back a) 0 (st_issued s))) (re s) =
    re (with_issued (set_nth a (n + 1) (st_issued s)) s)).
  { unfold re at 2, with_issued. cbn -[Nat.add]. rewrite <- (set_mapi _ a 0). do 2 f_equal. cbn. lia. }
  rewrite I. destruct q as [q|].
  - destruct (queue_decl p q) as [d| |]; [|easy..]. cbn [bind]. rewrite queue_re.
    destruct (find same_pair (a, q) _) as [g|]; [|easy]. cbn [option_map got bind omap].
    rewrite <- put_queue_re. do 3 f_equal. unfold re_groups. destruct (qu_grouped d); cbn; now rewrite map_app.
  - cbn [omap]. unfold with_free, re. cbn. now rewrite map_app.
Qed.

Lemma commit_re s a q : commit (re s) a q = omap re (commit s a q).
Proof.
  unfold commit. rewrite queue_re. destruct (find same_pair (a, q) (st_queues s)) as [g|]; [|easy].
  cbn [option_map got bind re_groups gr_open gr_closed]. rewrite !empty_mapped.
  destruct (is_empty (gr_open g) && is_empty (gr_closed g)); [easy|]. cbn [omap].
  rewrite <- put_queue_re. do 3 f_equal. unfold re_groups. cbn. now rewrite map_app.
Qed.

(** ** Asynchronous operations *)

Lemma flat_pairs (effects : list effect) : forall parts : list (list flight_access),
  flat_map (fun x => map (pair (fst x)) (snd x)) (combine effects (map (map re_access) parts)) =
  map (fun x => (fst x, re_access (snd x))) (flat_map (fun x => map (pair (fst x)) (snd x)) (combine effects parts)).
Proof.
  induction effects as [|e effects IH]; intros [|l parts]; [easy..|].
  cbn [map combine flat_map fst snd]. rewrite IH, map_app. f_equal. rewrite !map_map. now apply map_ext.
Qed.

Lemma flat_pairs_same {A B} (l : list (A * list B)) :
  flat_map (fun '(e, l) => map (pair e) l) l = flat_map (fun x => map (pair (fst x)) (snd x)) l.
Proof. induction l as [|[e m] l IH]; cbn; [easy|]. now rewrite IH. Qed.

Lemma completes_re s a env env' (completes : list (reference * expression)) :
  (forall c, In c completes -> names env env' (fst c) /\ keeps env env' (snd c)) ->
  each (fun '(r, bytes) => let* k := declared (re s) a env' r in let* n := value env' bytes in Done (k, n)) completes =
  omap (map (fun c => (turn (fst c), snd c)))
    (each (fun '(r, bytes) => let* k := declared s a env r in let* n := value env bytes in Done (k, n)) completes).
Proof.
  intros C. rewrite <- (map_id completes) at 1. apply each_mapped. intros [r b] I. destruct (C _ I) as [R B]. cbn [fst snd] in R, B.
  rewrite (declared_re s a env) by easy. destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite B. now destruct (value env b).
Qed.

Lemma issue_re s a env env' site effects q completes chunks :
  (forall e, In e effects -> fits_effect env env' e) ->
  (forall c, In c completes -> names env env' (fst c) /\ keeps env env' (snd c)) ->
  issue p (re s) a env' site effects q completes chunks = omap re (issue p s a env site effects q completes chunks).
Proof.
  intros F C. unfold issue.
  match goal with |- bind (each ?g effects) _ = omap re (bind (each ?f effects) _) =>
    assert (E : each g effects = omap (map (map re_access)) (each f effects)) end.
  { rewrite <- (map_id effects) at 1. apply each_mapped. intros e I. rewrite resolve_re with (env := env) by auto.
    destruct (resolve p s a env e) as [[cs t]| |] eqn:R; [|easy..]. cbn [omap bind re_resolved fst snd]. f_equal.
    rewrite !map_map. apply map_ext_in. intros c H. unfold re_access. cbn. f_equal.
    - now rewrite (resolved_in s a env e (cs, t) c R H).
    - destruct (ef_accumulates e); [|easy]. cbn. rewrite map_length. do 2 f_equal. destruct cs; easy. }
  rewrite E. match goal with |- bind (omap _ ?x) _ = _ => destruct x as [parts| |]; [|easy..] end.
  cbn [omap bind]. rewrite !flat_pairs_same, flat_pairs.
  match goal with |- bind (each ?g (map ?m ?l)) _ = omap re (bind (each ?f _) _) =>
    rewrite (each_kept f g m l) end.
  2:{ intros [e w] _. cbn [fst snd]. change (fa_cell (re_access w)) with (spin (fa_cell w)). rewrite check_cached_re, check_proxy_re.
      change (fa_proxy (re_access w)) with (fa_proxy w).
      change (fa_write (re_access w)) with (fa_write w). change (fa_extent (re_access w)) with (re_extent (fa_extent w)).
      change (fa_kind (re_access w)) with (fa_kind w).
      change (fa_tile (re_access w)) with (tile (fst (fa_cell w)) (fa_tile w)).
      now rewrite check_write_re, check_sum_re, check_read_re. }
  match goal with |- bind ?x _ = _ => destruct x as [u| |]; [|easy..] end. cbn [bind].
  rewrite (completes_re s a env env') by easy.
  match goal with |- bind (omap _ ?x) _ = _ => destruct x as [done| |]; [|easy..] end. cbn [omap bind].
  change (st_issued (re s)) with (mapi (fun a n => n - back a) 0 (st_issued s)). rewrite nth_mapi.
  destruct (nth_error (st_issued s) a) as [n|]; [|easy]. cbn [option_map got bind]. rewrite <- enqueue_re.
  unfold re_flight. cbn. now rewrite concat_map.
Qed.

Lemma queue_arrive_re s a env env' site q r count : names env env' r -> keeps env env' count ->
  queue_arrive p (re s) a env' site q r count = omap re (queue_arrive p s a env site q r count).
Proof.
  intros R C. unfold queue_arrive. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite C.
  destruct (value env count) as [n| |]; [|easy..]. cbn [bind].
  change (st_issued (re s)) with (mapi (fun a n => n - back a) 0 (st_issued s)). rewrite nth_mapi.
  destruct (nth_error (st_issued s) a) as [m|]; [|easy]. cbn [option_map got bind]. now rewrite <- enqueue_re.
Qed.

Lemma have_read_re s f : have_read p (re s) (re_flight f) = omap re (have_read p s f).
Proof.
  unfold have_read. cbn [re_flight fl_accesses]. apply fold_mapped. intros t w _.
  change (fa_cell (re_access w)) with (spin (fa_cell w)). cbn [re_access fa_write fa_proxy].
  destruct (_ || _); [easy|]. apply changed_re. intros h. unfold outside, re_content. cbn. now rewrite spin_storage.
Qed.

Lemma take_effect_re s f : take_effect p (re s) (re_flight f) = omap re (take_effect p s f).
Proof.
  unfold take_effect. change (fl_reading (re_flight f)) with (fl_reading f). rewrite have_read_re.
  assert (G : forall t, (fold (fun s w =>
    match fa_write w, is_generic (fa_proxy w) with
    | true, true => let* h := cell_at s (fa_cell w) in
      note_write p s (fa_cell w) (kept_tile h (fa_tile w) (fa_kind w)) engine
    | true, false => let* h := cell_at s (fa_cell w) in
      Done (put_cell s (fa_cell w)
        (Content (kept_tile h (fa_tile w) (fa_kind w)) (co_writers h) (co_readers h) (add engine (co_authors h)) false
           (co_marks (outside p h (fa_cell w) 1))))
    | false, true => note_read p s (fa_cell w) engine
    | false, false => Done s
    end) (re t) (fl_accesses (re_flight f))) = omap re (fold (fun s w =>
    match fa_write w, is_generic (fa_proxy w) with
    | true, true => let* h := cell_at s (fa_cell w) in
      note_write p s (fa_cell w) (kept_tile h (fa_tile w) (fa_kind w)) engine
    | true, false => let* h := cell_at s (fa_cell w) in
      Done (put_cell s (fa_cell w)
        (Content (kept_tile h (fa_tile w) (fa_kind w)) (co_writers h) (co_readers h) (add engine (co_authors h)) false
           (co_marks (outside p h (fa_cell w) 1))))
    | false, true => note_read p s (fa_cell w) engine
    | false, false => Done s
    end) t (fl_accesses f))).
  { intros t. cbn [re_flight fl_accesses]. apply fold_mapped. intros u w _.
    change (fa_cell (re_access w)) with (spin (fa_cell w)). cbn [re_access fa_write fa_proxy fa_tile fa_kind].
    destruct (fa_write w), (is_generic (fa_proxy w)); [| |apply note_read_re|easy].
    - rewrite cell_re. destruct (cell_at u (fa_cell w)) as [h| |]; [|easy..]. cbn [omap bind].
      rewrite kept_re. apply note_write_re.
    - apply changed_re. intros h. unfold re_content, outside. cbn. rewrite spin_storage. f_equal. now destruct (fa_kind w). }
  destruct (fl_reading f).
  - destruct (have_read p s f) as [t| |]; [|easy..]. cbn [omap bind]. apply G.
  - cbn [bind]. apply G.
Qed.

Definition re_finished (r : state * list flight) : state * list flight := (re (fst r), map re_flight (snd r)).

Lemma finish_re s f reads : finish p (re s) (re_flight f) reads = omap re_finished (finish p s f reads).
Proof.
  unfold finish. destruct reads.
  - rewrite have_read_re. destruct (have_read p s f) as [t| |]; [|easy..]. easy.
  - change (fl_chunks (re_flight f)) with (fl_chunks f). change (fl_completes (re_flight f)) with (map (fun c => (turn (fst c), snd c)) (fl_completes f)).
    change (fl_marker (re_flight f)) with (fl_marker f). change (fl_agent (re_flight f)) with (fl_agent f).
    change (fl_total (re_flight f)) with (fl_total f). rewrite take_effect_re.
    assert (G : forall x : outcome state, (if fl_chunks f =? 1 then omap re x else Done (re s)) =
      omap re (if fl_chunks f =? 1 then x else Done s)) by (intros x; now destruct (fl_chunks f =? 1)).
    rewrite G. match goal with |- bind (omap _ ?x) _ = _ => destruct x as [t| |]; [|easy..] end. cbn [omap bind].
    match goal with |- bind (fold ?g (re t) (map ?m ?l)) _ = omap _ (bind (fold ?f _ _) _) =>
      rewrite (fold_mapped f g m re l) end.
    + match goal with |- bind (omap _ ?x) _ = _ => destruct x as [u| |]; [|easy..] end. cbn [omap bind].
      unfold re_finished. cbn [fst snd]. now destruct (fl_chunks f =? 1).
    + intros u [k amount] _. cbn [fst snd]. rewrite usable_re. destruct (usable p u (fl_agent f) k true) as [b| |]; [|easy..].
      cbn [omap bind]. destruct (fl_marker f); [now rewrite <- count_down_re|now rewrite <- store_re].
Qed.

Lemma mark_re a n f : is_mark a (n - back a) (re_flight f) = is_mark a n f.
Proof.
  unfold is_mark. cbn. destruct (Nat.eqb_spec (fl_agent f) a) as [->|]; cbn [andb]; [|easy].
  apply eq_true_iff_eq. rewrite !Z.eqb_eq. lia.
Qed.

Lemma replaced_re a n rest l :
  replaced a (n - back a) (map re_flight rest) (map re_flight l) = map re_flight (replaced a n rest l).
Proof.
  unfold replaced. induction l as [|f l IH]; cbn [map flat_map]; [easy|]. rewrite mark_re, IH, map_app.
  now destruct (is_mark a n f).
Qed.

Lemma is_over_re f : is_over (re_flight f) = is_over f.
Proof. unfold is_over. cbn [re_flight fl_reading fl_completes fl_accesses]. rewrite empty_mapped. f_equal. now apply all_mapped. Qed.

Lemma kept_flights_re ordered l : forall waiting,
  kept ordered waiting (map re_flight l) = (map re_flight (fst (kept ordered waiting l)), snd (kept ordered waiting l)).
Proof.
  induction l as [|f l IH]; intros w; cbn [kept map]; [easy|]. rewrite is_over_re.
  destruct (w || negb (is_over f)); rewrite IH; [|easy]. now destruct (kept ordered (w || ordered) l).
Qed.

Lemma kept_groups_re ordered l : forall waiting,
  kept_groups ordered waiting (map (map re_flight) l) = map (map re_flight) (kept_groups ordered waiting l).
Proof.
  induction l as [|g l IH]; intros w; cbn [kept_groups map]; [easy|]. rewrite kept_flights_re.
  destruct (kept ordered w g) as [h u]. cbn. now rewrite IH.
Qed.

Lemma removelast_mapped {A B} (f : A -> B) l : removelast (map f l) = map f (removelast l).
Proof. induction l as [|x l IH]; [easy|]. cbn in *. rewrite IH. now destruct l. Qed.

Lemma last_mapped {A B} (f : A -> B) l d : last (map f l) (f d) = f (last l d).
Proof. induction l as [|x l IH]; [easy|]. cbn in *. rewrite IH. now destruct l. Qed.

Lemma drop_empty_re l : drop_empty (map (map re_flight) l) = map (map re_flight) (drop_empty l).
Proof. induction l as [|[|f g] l IH]; cbn in *; easy. Qed.

Lemma retired_re d closed opened k :
  retired d (map (map re_flight) closed) (map re_flight opened) = re_groups k (retired d closed opened).
Proof.
  unfold retired. change [map re_flight opened] with (map (map re_flight) [opened]).
  rewrite <- map_app, kept_groups_re, removelast_mapped. unfold re_groups. cbn. f_equal.
  - destruct (qu_ordered d); [apply drop_empty_re|]. apply filter_mapped. intros g. now rewrite empty_mapped.
  - apply (last_mapped (map re_flight) _ []).
Qed.

Lemma engine_step_re s a n reads :
  engine_step p (re s) a (n - back a) reads = omap re (engine_step p s a n reads).
Proof.
  unfold engine_step. change (st_free (re s)) with (map re_flight (st_free s)).
  rewrite (find_mapped (is_mark a n)) by (intros f; apply mark_re).
  destruct (List.find (is_mark a n) (st_free s)) as [f|]; cbn [option_map].
  - rewrite finish_re. destruct (finish p s f reads) as [[t rest]| |]; [|easy..]. cbn [omap bind re_finished fst snd].
    change (st_free (re t)) with (map re_flight (st_free t)). rewrite replaced_re. easy.
  - change (st_queues (re s)) with (map (entry_mapped same re_groups) (st_queues s)).
    rewrite (find_mapped (fun e => existsb (is_mark a n) (concat (gr_closed (snd e)) ++ gr_open (snd e)))).
    2:{ intros e. cbn. rewrite <- concat_map, <- map_app. apply exists_mapped. intros f. apply mark_re. }
    destruct (List.find _ (st_queues s)) as [[[owner q] g]|]; cbn [option_map got bind entry_mapped same fst snd]; [|easy].
    cbn [re_groups gr_closed gr_open]. rewrite <- concat_map, <- map_app.
    rewrite (find_mapped (is_mark a n)) by (intros f; apply mark_re).
    destruct (List.find (is_mark a n) _) as [f|]; cbn [option_map got bind]; [|easy].
    destruct (queue_decl p q) as [d| |]; [|easy..]. cbn [bind]. rewrite finish_re.
    destruct (finish p s f reads) as [[t rest]| |]; [|easy..]. cbn [omap bind re_finished fst snd].
    rewrite <- put_queue_re, replaced_re, map_map. do 3 f_equal. rewrite <- retired_re. f_equal.
    rewrite map_map. apply map_ext. intros l. apply replaced_re.
Qed.

(** ** Fences *)

Lemma fenced_re kind a gone c h : fenced p kind a gone (spin c) (re_content c h) = re_content c (fenced p kind a gone c h).
Proof.
  unfold re_content, fenced. rewrite spin_storage. destruct kind; cbn [fenced co_tile co_writers co_readers co_authors co_released co_marks]; try easy.
  - now destruct (is_empty (co_authors h)).
  - destruct (fenced_marks _ _ _ _ _) as [m wrote]. now destruct (is_empty wrote).
Qed.

(** Cells are changed one by one, in whatever order. *)
Lemma changes_permute (f : cell -> content -> content) l l' : Permutation l l' -> NoDup l -> forall s,
  fold (fun s c => let* h := cell_at s c in Done (put_cell s c (f c h))) s l =
  fold (fun s c => let* h := cell_at s c in Done (put_cell s c (f c h))) s l'.
Proof.
  intros P. induction P as [|c l l' P IH|c d l|l m n P IH Q IH']; intros D s; cbn [fold]; [easy| | |].
  - inversion D; subst. destruct (cell_at s c); cbn [bind]; [now apply IH|easy..].
  - inversion D as [|x y N D']; subst. assert (E : c <> d) by (intros ->; apply N; now left).
    unfold cell_at. destruct (find same_key c (st_cells s)) as [h|] eqn:C, (find same_key d (st_cells s)) as [g|] eqn:G; cbn [got bind];
      cbn [put_cell with_cells st_cells]; rewrite ?find_put_other by (easy || now apply not_eq_sym); rewrite ?C, ?G; cbn [got bind]; try easy.
    unfold put_cell, with_cells. cbn. rewrite (put_put_other c d) by (easy || congruence). easy.
  - rewrite IH by easy. apply IH'. now apply (Permutation_NoDup P).
Qed.

Lemma changes_re (F : cell -> content -> content) b t : In b (pr_buffers p) ->
  (forall c h, F (spin c) (re_content c h) = re_content c (F c h)) ->
  fold (fun s c => let* h := cell_at s c in Done (put_cell s c (F c h))) (re t) (all_cells b) =
  omap re (fold (fun s c => let* h := cell_at s c in Done (put_cell s c (F c h))) t (all_cells b)).
Proof.
  intros B E. destruct (spin_buffer b B) as [D P]. rewrite (changes_permute F _ _ (Permutation_sym P) D).
  apply fold_mapped. intros u c _. apply changed_re. intros h. apply E.
Qed.

Lemma fence_re s a kind spaces : fence p (re s) a kind spaces = omap re (fence p s a kind spaces).
Proof.
  set (gone := fun near h => let released := fold_right (fun m => add (fst (fst m))) [] (ma_released (co_marks h)) in
      let all := union (co_writers h) (union (co_readers h) (union (co_authors h) released)) in
      let gone := add engine [Z.of_nat a] in
      if po_path (pr_policies p) && near then union gone all else gone).
  assert (M : forall k, fold (fun s b => if covers p a k spaces b then
      fold (fun s c => let* h := cell_at s c in
        Done (put_cell s c (fenced p k a (gone (same_space (bu_space b) Global || (bu_cta b =? cta_of p a)) h) c h))) s (all_cells b)
      else Done s) (re s) (pr_buffers p) =
    omap re (fold (fun s b => if covers p a k spaces b then
      fold (fun s c => let* h := cell_at s c in
        Done (put_cell s c (fenced p k a (gone (same_space (bu_space b) Global || (bu_cta b =? cta_of p a)) h) c h))) s (all_cells b)
      else Done s) s (pr_buffers p))).
  { intros k. apply fold_same. intros t b B. destruct (covers _ _ _ _ _); [|easy].
    apply (changes_re (fun c h => fenced p k a (gone (same_space (bu_space b) Global || (bu_cta b =? cta_of p a)) h) c h) b t B).
    intros c h. apply fenced_re. }
  unfold fence. destruct kind; try apply M. clear M.
  cbn [omap]. f_equal. unfold with_barriers, re. cbn. f_equal. rewrite !map_map.
  apply map_ext. intros [k b]. unfold entry_mapped. cbn [fst snd re_phase mb_status mb_owner].
  now destruct (_ && _).
Qed.

(** ** Control flow *)

(** What an operation needs of the values before ([env]) and of those renumbered. *)
Definition fits (env env' : nat -> Z) (o : operation) : Prop :=
  match o with
  | Access l => forall e, In e l -> fits_effect env env' e
  | Asynchronous _ l _ completes _ =>
    (forall e, In e l -> fits_effect env env' e) /\
    (forall c, In c completes -> names env env' (fst c) /\ keeps env env' (snd c))
  | QueueWait _ n _ | PoolTake _ n | PoolGive _ n => keeps env env' n
  | QueueArrive _ _ r n | ExpectTransaction r n => names env env' r /\ keeps env env' n
  | BarrierSync r n | BarrierArrive r n => keeps env env' (snd r) /\ keeps env env' n
  | Init r n => names env env' r /\ keeps env env' n /\ forall k, key_of env r = Done k -> fall k = 0
  | Invalidate r | TokenWait r => names env env' r
  | BarrierWait r => keeps env env' (snd r)
  | Arrive r n bytes _ _ => names env env' r /\ keeps env env' n /\ keeps env env' bytes
  | Wait r parity phase =>
    names env env' r /\ fits_parity env env' r parity /\
    forall e, phase = Some e -> fits_phase env env' r e
  | Commit _ | Fence _ _ | Assign _ _ | Loop _ _ _ _ | Branch _ _ _ => True
  end.

(** Positions of which all numbers are high enough: operations fit, and control goes the same way. *)
Variable high : nat -> position -> Prop.
Hypothesis high_fits : forall a q g o, high a q -> nth_error (pr_agents p) a = Some g -> op_of p q = Some o ->
  fits (environment g (values q)) (environment g (values (place a q))) o.
Hypothesis high_moves : forall a q g b i outer, high a q -> nth_error (pr_agents p) a = Some g ->
  frames q = (b, i) :: outer ->
  settle p local_steps_max g ((b, S i) :: outer) (values (place a q)) =
  omap (place a) (settle p local_steps_max g ((b, S i) :: outer) (values q)).
Hypothesis high_stays : forall a q g b i outer r, high a q -> nth_error (pr_agents p) a = Some g ->
  frames q = (b, i) :: outer -> settle p local_steps_max g ((b, S i) :: outer) (values q) = Done r -> high a r.

Definition all_high (s : state) : Prop := forall a q, nth_error (st_positions s) a = Some q -> high a q.

Lemma op_re a q : op_of p (place a q) = op_of p q.
Proof. unfold op_of. now rewrite place_frames. Qed.

Lemma advance_re s a : all_high s -> advance p (re s) a = omap re (advance p s a).
Proof.
  intros H. unfold advance, agent_of. destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|easy]. cbn [got bind].
  rewrite position_re. destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. cbn [option_map got bind].
  rewrite place_frames. destruct (frames q) as [|[b i] outer] eqn:F; [easy|].
  rewrite (high_moves a q g b i outer (H a q Q) G F).
  destruct (settle p local_steps_max g ((b, S i) :: outer) (values q)) as [r| |]; [|easy..]. cbn [omap bind].
  unfold re. cbn [st_positions st_issued st_barriers st_named st_cells st_queues st_free st_pools].
  now rewrite <- (set_mapi place a 0 r).
Qed.

Lemma advance_high s a t : all_high s -> advance p s a = Done t -> all_high t.
Proof.
  intros H. unfold advance, agent_of. destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|easy]. cbn [got bind].
  destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. cbn [got bind].
  destruct (frames q) as [|[b i] outer] eqn:F; [easy|].
  destruct (settle p local_steps_max g ((b, S i) :: outer) (values q)) as [r| |] eqn:S; [|easy..]. cbn [bind].
  intros [= <-] c w. cbn [st_positions]. intros W. destruct (Nat.eq_dec a c) as [<-|N].
  - assert (E : w = r); [|subst w; apply (high_stays a q g b i outer); auto].
    clear - W Q. revert W Q. generalize (st_positions s). induction a as [|a IH]; intros [|x l]; cbn; try easy.
    + now intros [= <-].
    + apply IH.
  - apply (H c). clear - W N. revert a c N W. induction (st_positions s) as [|x l IH]; intros [|a] [|c] N; cbn; try easy.
    apply IH. lia.
Qed.

Lemma all_go_on waiting : forall s, all_high s ->
  fold (fun s other => advance p s (Z.to_nat other)) (re s) waiting =
  omap re (fold (fun s other => advance p s (Z.to_nat other)) s waiting) /\
  forall t, fold (fun s other => advance p s (Z.to_nat other)) s waiting = Done t -> all_high t.
Proof.
  induction waiting as [|w waiting IH]; intros s H; cbn [fold].
  - split; [easy|]. now intros t [= <-].
  - rewrite advance_re by easy. destruct (advance p s (Z.to_nat w)) as [u| |] eqn:A; [|easy..]. cbn [omap bind].
    apply IH. now apply advance_high with s (Z.to_nat w).
Qed.

(** ** Operations that change who is where, or ask it *)

Lemma declared_named_re s a env env' r : keeps env env' (snd r) ->
  declared_named (re s) a env' r = declared_named s a env r.
Proof. intros K. unfold declared_named. now rewrite (key_re env). Qed.

Lemma named_wait_re s a env env' r : keeps env env' (snd r) ->
  named_wait (re s) a env' r = omap re (named_wait s a env r).
Proof.
  intros K. unfold named_wait. rewrite (declared_named_re s a env) by easy.
  destruct (declared_named s a env r) as [[k n]| |]; [|easy..]. cbn [bind]. now destruct (negb _).
Qed.

Definition re_met (x : state * bool) : state * bool := (re (fst x), snd x).

Lemma meet_re s a env env' r threads sync : all_high s -> keeps env env' (snd r) -> keeps env env' threads ->
  meet p (re s) a env' r threads sync = omap re_met (meet p s a env r threads sync) /\
  forall t, meet p s a env r threads sync = Done t -> all_high (fst t).
Proof.
  intros H R T. unfold meet. destruct (agent_of p a) as [g| |]; [|easy..]. cbn [bind]. rewrite T.
  destruct (value env threads) as [all| |]; [|easy..]. cbn [bind].
  rewrite (declared_named_re s a env) by easy. destruct (declared_named s a env r) as [[k n]| |]; [|easy..].
  cbn [bind]. destruct (_ || _); [easy|]. cbn [guard bind]. destruct (negb _); [easy|]. cbn [guard bind].
  destruct (_ <? all).
  - split; [easy|]. now intros t [= <-].
  - change (st_named (re s)) with (st_named s).
    match goal with |- bind (fold _ (with_named ?l _) _) _ = _ /\ _ =>
      destruct (all_go_on (na_waiting n) (with_named l s) H) as [E G];
      change (with_named l (re s)) with (re (with_named l s)) end.
    rewrite E. match goal with |- bind (omap re ?x) _ = omap re_met (bind ?y _) /\ _ =>
      change y with x; destruct x as [t| |] end; cbn [omap bind];
      [|split; [easy|intros u U; discriminate U]..]. split; [easy|].
    intros u [= <-]. cbn [fst]. now apply G.
Qed.

Lemma env_of_re s a : env_of p (re s) a =
  let* g := agent_of p a in
  let* q := got (nth_error (st_positions s) a) in Done (environment g (values (place a q))).
Proof.
  unfold env_of. destruct (agent_of p a) as [g| |]; [|easy..]. cbn [bind]. rewrite position_re.
  now destruct (nth_error (st_positions s) a).
Qed.

(** What asks of every agent where it stands. *)
Lemma asked_re {S} (f g : state -> S -> nat -> position -> outcome S) s (x : S) :
  (forall y a q, nth_error (st_positions s) a = Some q -> g (re s) y a (place a q) = f s y a q) ->
  fold (fun y e => g (re s) y (fst e) (snd e)) x (numbered (st_positions (re s))) =
  fold (fun y e => f s y (fst e) (snd e)) x (numbered (st_positions s)).
Proof.
  intros H. change (st_positions (re s)) with (mapi place 0 (st_positions s)). rewrite numbered_mapi.
  match goal with |- fold ?g x (map ?m ?l) = fold ?f x _ =>
    pose proof (fold_mapped f g m (fun y => y) l) as E end. cbn beta in E. rewrite E; [now rewrite omap_same|].
  intros y [a q] I. cbn [fst snd]. rewrite omap_same. now apply H, in_numbered.
Qed.

Lemma fold_pairs {S A B} (f : S -> A -> B -> outcome S) x (l : list (A * B)) :
  fold (fun y '(a, b) => f y a b) x l = fold (fun y e => f y (fst e) (snd e)) x l.
Proof. revert x. induction l as [|[a b] l IH]; intros x; cbn; [easy|]. now destruct (f x a b); cbn. Qed.

Lemma waited_re s k : all_high s -> waited_for p (re s) (turn k) = waited_for p s k.
Proof.
  intros H. unfold waited_for. rewrite !fold_pairs.
  set (ask := fun k s found a q => match op_of p q with
    | Some (Wait r _ _) | Some (TokenWait r) =>
      let* env := env_of p s a in let* other := key_of env r in Done (found || same_key other k)
    | _ => Done found end). apply (asked_re (ask k) (ask (turn k))). unfold ask. clear ask.
  intros found a q Q. rewrite op_re, env_of_re. unfold env_of, agent_of. rewrite Q. cbn [got bind].
  destruct (op_of p q) as [o|] eqn:O; [|easy]. destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|now destruct o].
  pose proof (high_fits a q g o (H a q Q) G O) as F.
  destruct o; try easy; cbn [got bind]; cbn [fits] in F; [destruct F as [F _]|]; rewrite F;
    (destruct (key_of (environment g (values q)) barrier) as [h| |]; [|easy..]; cbn [omap bind]; now rewrite turn_one).
Qed.

Lemma invalidate_re s a env env' r : all_high s -> names env env' r ->
  invalidate p (re s) a env' r = omap re (invalidate p s a env r).
Proof.
  intros H R. unfold invalidate. rewrite (declared_re s a env) by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [omap bind]. rewrite barrier_re.
  destruct (find same_key k (st_barriers s)) as [b|]; [|easy]. cbn [option_map got bind re_phase mb_status mb_tokens].
  destruct (is_absent (mb_status b)); [easy|]. cbn [guard bind]. rewrite waited_re by easy.
  destruct (waited_for p s k) as [w| |]; [|easy..]. cbn [bind]. rewrite flights_re.
  rewrite (exists_mapped (fun f => existsb (fun c => same_key (fst c) k) (fl_completes f)))
    by (intros f; cbn; apply exists_mapped; intros c; apply turn_one).
  destruct (_ || w); [easy|]. cbn [guard bind omap]. now rewrite <- put_barrier_re.
Qed.

Lemma lapped_re s : all_high s -> check_lapped p (re s) = check_lapped p s.
Proof.
  intros H. unfold check_lapped. rewrite !(fold_pairs (fun _ => _)).
  set (ask := fun s (_ : unit) a q => match op_of p q with
    | Some (Wait r _ (Some phase)) =>
      let* env := env_of p s a in let* k := key_of env r in let* meant := value env phase in
      match find same_key k (st_barriers s) with
      | Some b => guard (negb (is_absent (mb_status b)) && (meant + 1 <? mb_phase b)) LappedWait [a]
      | None => Done tt
      end
    | _ => Done tt end). apply (asked_re ask ask). unfold ask. clear ask.
  intros [] a q Q. rewrite op_re, env_of_re. unfold env_of, agent_of. rewrite Q. cbn [got bind].
  destruct (op_of p q) as [o|] eqn:O; [|easy]. destruct o as [| | | | | | | | | ? ? [e|]| | | | | | | | | |]; try easy.
  destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|easy].
  destruct (high_fits a q g _ (H a q Q) G O) as (R & _ & P). cbn [got bind].
  rewrite R.
  destruct (key_of (environment g (values q)) barrier) as [k| |] eqn:K; [|easy..]. cbn [omap bind].
  rewrite (P e eq_refl k K). destruct (value (environment g (values q)) e) as [m| |]; [|easy..]. cbn [omap bind].
  rewrite barrier_re. destruct (find same_key k (st_barriers s)) as [b|]; [|easy]. cbn [option_map re_phase mb_status mb_phase].
  do 2 f_equal. apply eq_true_iff_eq. rewrite !Z.ltb_lt. lia.
Qed.

(** ** Operations leave every agent where it is, until it goes on *)

Ltac undone := repeat match goal with
  | H : bind ?x _ = Done _ |- _ => destruct x eqn:?; cbn [bind] in H; [|discriminate H|discriminate H]
  | H : Done _ = Done _ |- _ => injection H as <-
  | H : (if ?c then _ else _) = Done _ |- _ => destruct c
  | H : match ?x with _ => _ end = Done _ |- _ => destruct x; try discriminate H
  end.

Definition still (f : state -> outcome state) : Prop :=
  forall s t, f s = Done t -> st_positions t = st_positions s.

Lemma fold_still {A} (f : state -> A -> outcome state) l : (forall x, still (fun s => f s x)) ->
  still (fun s => fold f s l).
Proof.
  intros H. induction l as [|x l IH]; intros s t; cbn [fold]; [now intros [= <-]|].
  destruct (f s x) as [u| |] eqn:F; [|easy..]. cbn [bind]. intros E. rewrite (IH u t E). now apply (H x).
Qed.

Lemma store_still a k b : still (fun s => store p s a k b).
Proof. intros s t H. unfold store in H. undone. easy. Qed.
Lemma count_down_still a k b n m : still (fun s => count_down p s a k b n m).
Proof. intros s t H. unfold count_down in H. undone. now apply store_still in H. Qed.
Lemma note_write_still c n who : still (fun s => note_write p s c n who).
Proof. intros s t H. unfold note_write in H. undone. easy. Qed.
Lemma note_read_still c who : still (fun s => note_read p s c who).
Proof. intros s t H. unfold note_read in H. undone. easy. Qed.

Lemma access_still a env effects : still (fun s => access p s a env effects).
Proof.
  intros s t H. unfold access in H. undone. revert s t H Heqo Heqo0. intros s t H _ _.
  apply fold_still in H; [easy|]. intros [e [cs n]] u v G. apply fold_still in G; [easy|].
  intros c w x E. destruct (is_cached _).
  - unfold note_cached in E. now undone.
  - destruct (ef_write e); [|now apply note_read_still in E]. undone. now apply note_write_still in E.
Qed.

Lemma enqueue_still q f : still (fun s => enqueue p s q f).
Proof. intros s t H. unfold enqueue in H. undone; easy. Qed.
Lemma issue_still a env site effects q completes chunks :
  still (fun s => issue p s a env site effects q completes chunks).
Proof. intros s t H. unfold issue in H. undone. now apply enqueue_still in H. Qed.
Lemma queue_arrive_still a env site q r n : still (fun s => queue_arrive p s a env site q r n).
Proof. intros s t H. unfold queue_arrive in H. undone. now apply enqueue_still in H. Qed.
Lemma arrive_still a env r n m d k : still (fun s => arrive p s a env r n m d k).
Proof. intros s t H. unfold arrive in H. undone. now apply count_down_still in H. Qed.
Lemma expect_still a env r n : still (fun s => expect p s a env r n).
Proof. intros s t H. unfold expect in H. undone. now apply store_still in H. Qed.

Lemma fence_still a kind spaces : still (fun s => fence p s a kind spaces).
Proof.
  intros s t. unfold fence. destruct kind; [| | | | |now intros [= <-]|].
  all: apply fold_still; intros b u v; destruct (covers _ _ _ _ _); [|now intros [= <-]];
    apply fold_still; intros c w x E; now undone.
Qed.

(** The operations that are no arrival at a named barrier. *)
Lemma execute_goes s a x y : all_high s -> y = omap re x ->
  (forall t, x = Done t -> st_positions t = st_positions s) ->
  bind y (fun t => advance p t a) = omap re (bind x (fun t => advance p t a)) /\
  forall t, bind x (fun t => advance p t a) = Done t -> all_high t.
Proof.
  intros H -> K. destruct x as [t| |]; cbn [omap bind]; [|now split..].
  assert (T : all_high t) by (unfold all_high; now rewrite (K t eq_refl)).
  split; [now apply advance_re|]. intros u. now apply advance_high.
Qed.

Lemma execute_meets s a x y : all_high s -> y = omap re_met x /\ (forall t, x = Done t -> all_high (fst t)) ->
  (let* (s, on) := y in if on then advance p s a else Done s) =
  omap re (let* (s, on) := x in if on then advance p s a else Done s) /\
  forall t, (let* (s, on) := x in if on then advance p s a else Done s) = Done t -> all_high t.
Proof.
  intros H [-> K]. destruct x as [[t on]| |]; cbn [omap bind re_met fst snd]; [|now split..].
  specialize (K _ eq_refl). cbn [fst] in K. destruct on.
  - split; [now apply advance_re|]. intros u. now apply advance_high.
  - split; [easy|]. now intros u [= <-].
Qed.

Lemma execute_re s a : all_high s -> execute p (re s) a = omap re (execute p s a) /\
  forall t, execute p s a = Done t -> all_high t.
Proof.
  intros H. unfold execute. rewrite env_of_re, position_re. unfold env_of, agent_of.
  destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|now split]. cbn [option_map got bind].
  destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|now split]. cbn [got bind]. rewrite op_re.
  destruct (op_of p q) as [o|] eqn:O; [|now split]. cbn [got bind].
  pose proof (high_fits a q g o (H a q Q) G O) as F. cbv zeta.
  set (env := environment g (values q)) in *. set (env' := environment g (values (place a q))) in *.
  destruct o; cbn [fits] in F.
  - apply (execute_goes s a); [easy|now apply access_re|apply access_still].
  - apply (execute_goes s a); [easy|now apply issue_re|apply issue_still].
  - apply (execute_goes s a); [easy|apply commit_re|]. intros t E. unfold commit in E. now undone.
  - split; [now apply advance_re|intros t; now apply advance_high].
  - apply (execute_goes s a); [easy|now apply queue_arrive_re|apply queue_arrive_still].
  - apply (execute_goes s a); [easy|now apply init_re|]. intros t E. unfold init in E. now undone.
  - apply (execute_goes s a); [easy|now apply invalidate_re|]. intros t E. unfold invalidate in E. now undone.
  - apply (execute_goes s a); [easy|now apply arrive_re|apply arrive_still].
  - apply (execute_goes s a); [easy|now apply expect_re|apply expect_still].
  - apply (execute_goes s a); [easy|now apply wait_re|]. intros t E. unfold wait in E. now undone.
  - apply (execute_goes s a); [easy|now apply token_wait_re|]. intros t E. unfold token_wait in E. now undone.
  - apply (execute_meets s a); [easy|]. now apply meet_re.
  - apply (execute_meets s a); [easy|]. now apply meet_re.
  - apply (execute_goes s a); [easy|now apply named_wait_re|]. intros t E. unfold named_wait in E. now undone.
  - apply (execute_goes s a); [easy|apply fence_re|apply fence_still].
  - unfold pool_units. rewrite F. destruct (value env amount) as [n| |]; [|now split..]. cbn [bind].
    destruct (n <? 0); [now split|]. cbn [guard bind]. change (st_pools (re s)) with (st_pools s).
    destruct (nth_error (st_pools s) pool) as [free|]; [|now split]. cbn [got bind].
    pose (t := with_pools (set_nth pool (free - n) (st_pools s)) s).
    change (all_high t) in H. split; [now apply (advance_re t)|intros u; now apply (advance_high t)].
  - unfold pool_units. rewrite F. destruct (value env amount) as [n| |]; [|now split..]. cbn [bind].
    destruct (n <? 0); [now split|]. cbn [guard bind]. change (st_pools (re s)) with (st_pools s).
    destruct (nth_error (st_pools s) pool) as [free|]; [|now split]. cbn [got bind].
    pose (t := with_pools (set_nth pool (free + n) (st_pools s)) s).
    change (all_high t) in H. split; [now apply (advance_re t)|intros u; now apply (advance_high t)].
  - now split.
  - now split.
  - now split.
Qed.

Lemma have_read_still f : still (fun s => have_read p s f).
Proof. apply fold_still. intros w s t E. now undone. Qed.

Lemma take_effect_still f : still (fun s => take_effect p s f).
Proof.
  intros s t H. unfold take_effect in H.
  assert (K : forall u, (if fl_reading f then have_read p s f else Done s) = Done u -> st_positions u = st_positions s).
  { intros u. destruct (fl_reading f); [apply have_read_still|now intros [= <-]]. }
  destruct (if fl_reading f then have_read p s f else Done s) as [u| |]; [|easy..]. cbn [bind] in H.
  rewrite <- (K u eq_refl). revert H. apply fold_still. clear. intros w s t E.
  destruct (fa_write w), (is_generic (fa_proxy w)).
  - undone. now apply note_write_still in E.
  - now undone.
  - now apply note_read_still in E.
  - now injection E as <-.
Qed.

Lemma finish_still f reads s r : finish p s f reads = Done r -> st_positions (fst r) = st_positions s.
Proof.
  unfold finish. destruct reads.
  - destruct (have_read p s f) as [t| |] eqn:R; [|easy..]. intros [= <-]. now apply have_read_still in R.
  - assert (K : forall u, (if fl_chunks f =? 1 then take_effect p s f else Done s) = Done u ->
      st_positions u = st_positions s).
    { intros u. destruct (fl_chunks f =? 1); [apply take_effect_still|now intros [= <-]]. }
    destruct (if fl_chunks f =? 1 then take_effect p s f else Done s) as [u| |]; [|easy..]. cbn [bind].
    match goal with |- bind ?x _ = _ -> _ => destruct x as [t| |] eqn:E; [|easy..] end. intros [= <-]. cbn [fst].
    rewrite <- (K u eq_refl). revert E. apply fold_still. clear. intros [k n] s t E.
    destruct (usable _ _ _ _ _); [|easy..]. cbn [bind] in E.
    destruct (fl_marker f); [now apply count_down_still in E|now apply store_still in E].
Qed.

Lemma engine_step_still a n reads : still (fun s => engine_step p s a n reads).
Proof.
  intros s t. unfold engine_step. destruct (List.find _ (st_free s)) as [f|].
  - destruct (finish p s f reads) as [[u rest]| |] eqn:F; [|easy..]. cbn [bind]. intros [= <-].
    now apply finish_still in F.
  - destruct (List.find _ (st_queues s)) as [[[o q] g]|]; [|easy]. cbn [got bind].
    destruct (List.find _ _) as [f|]; [|easy]. cbn [got bind]. destruct (queue_decl p q); [|easy..]. cbn [bind].
    destruct (finish p s f reads) as [[u rest]| |] eqn:F; [|easy..]. cbn [bind]. intros [= <-].
    now apply finish_still in F.
Qed.

(** ** Steps *)

Lemma outstanding_re d k g reads : outstanding d (re_groups k g) reads = outstanding d g reads.
Proof.
  unfold outstanding. cbn [re_groups gr_closed]. rewrite map_map.
  rewrite (map_ext _ (existsb (fun f => negb reads || fl_reading f))); [easy|].
  intros l. now apply exists_mapped.
Qed.

Lemma enabled_re s a : all_high s -> enabled p (re s) a = enabled p s a.
Proof.
  intros H. unfold enabled. rewrite env_of_re, position_re. unfold env_of, agent_of.
  destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. cbn [option_map got bind].
  destruct (nth_error (pr_agents p) a) as [g|] eqn:G; [|easy]. cbn [got bind]. rewrite op_re.
  destruct (op_of p q) as [o|] eqn:O; [|easy].
  pose proof (high_fits a q g o (H a q Q) G O) as F.
  set (env := environment g (values q)) in *. set (env' := environment g (values (place a q))) in *.
  destruct o; cbn [fits] in F; try easy.
  - rewrite queue_re. destruct (queue_decl p queue) as [d| |]; [|easy..]. cbn [bind].
    destruct (find same_pair (a, queue) (st_queues s)) as [k|]; [|easy]. cbn [option_map got bind].
    rewrite F. destruct (value env pending); [|easy..]. cbn [bind]. now rewrite outstanding_re.
  - destruct F as (R & P & _). rewrite R. destruct (key_of env barrier) as [k| |] eqn:K; [|easy..].
    cbn [omap bind]. rewrite barrier_re. destruct (find same_key k (st_barriers s)) as [b|]; [|easy].
    cbn [option_map re_phase mb_status mb_phase]. destruct (is_absent (mb_status b)); [easy|].
    destruct (P k K) as (d & -> & E). destruct (value env parity) as [v| |]; [|easy..]. cbn [omap bind].
    do 2 f_equal. apply eq_true_iff_eq. rewrite !Z.eqb_eq.
    assert (D : exists m, d = fall k + 2 * m).
    { exists ((d - fall k) / 2). pose proof (Z.div_mod (d - fall k) 2). lia. }
    destruct D as [m ->]. rewrite (Zminus_mod (mb_phase b)), (Zminus_mod v), Z.mul_comm, Z.mod_add by lia.
    pose proof (Z.mod_pos_bound (mb_phase b) 2). pose proof (Z.mod_pos_bound v 2).
    pose proof (Z.mod_pos_bound (fall k) 2).
    assert (C : forall x, 0 <= x < 2 -> x = 0 \/ x = 1) by lia.
    destruct (C (mb_phase b mod 2)) as [-> | ->]; [lia| |]; (destruct (C (v mod 2)) as [-> | ->]; [lia| |]);
      (destruct (C (fall k mod 2)) as [-> | ->]; [lia| |]); cbn; split; intros W; lia || discriminate W.
  - rewrite F. destruct (key_of env barrier) as [k| |]; [|easy..]. cbn [omap bind].
    rewrite barrier_re. now destruct (find same_key k (st_barriers s)).
  - now rewrite (key_re env) by easy.
  - change (st_pools (re s)) with (st_pools s). now rewrite F.
Qed.

Lemma compare_less n m k : (n - k ?= m - k) = (n ?= m).
Proof. destruct (Z.compare_spec n m), (Z.compare_spec (n - k) (m - k)); try easy; lia. Qed.

Lemma order_re x y : order (re_step x) (re_step y) = order x y.
Proof.
  unfold order. destruct x as [a|a n|a n], y as [b|b m|b m]; cbn [re_step rank]; try easy; cbn.
  all: destruct (Z.compare_spec (Z.of_nat a) (Z.of_nat b)) as [E| |]; try easy;
    apply Nat2Z.inj in E; subst b; apply compare_less.
Qed.

Lemma insert_re x l : insert (re_step x) (map re_step l) = map re_step (insert x l).
Proof.
  induction l as [|y l IH]; cbn [insert map]; [easy|]. rewrite order_re, IH. now destruct (order x y).
Qed.

Lemma sorted_re l : fold_right insert [] (map re_step l) = map re_step (fold_right insert [] l).
Proof. induction l as [|x l IH]; cbn [fold_right map]; [easy|]. now rewrite IH, insert_re. Qed.

Lemma released_re l : released (map re_flight l) = map re_flight (released l).
Proof.
  induction l as [|f l IH]; [easy|]. cbn [released map]. change (re_flight f :: map re_flight l) with (map re_flight (f :: l)).
  rewrite (exists_mapped fl_marker) by easy. rewrite IH. now destruct (existsb fl_marker (f :: l)).
Qed.

Lemma step_of_re f split : engine_step_of (re_flight f) split = re_step (engine_step_of f split).
Proof. unfold engine_step_of. cbn. now destruct (split && fl_reading f). Qed.

Lemma steps_of_re split l : map (fun f => engine_step_of f split) (map re_flight l) =
  map re_step (map (fun f => engine_step_of f split) l).
Proof. rewrite !map_map. apply map_ext. intros f. apply step_of_re. Qed.

Lemma engine_steps_re s : engine_steps p (re s) = omap (map re_step) (engine_steps p s).
Proof.
  unfold engine_steps. change (st_queues (re s)) with (map (entry_mapped same re_groups) (st_queues s)).
  match goal with |- bind (each ?g _) _ = omap _ (bind (each ?f ?l) _) =>
    rewrite (each_mapped f g (entry_mapped same re_groups) (map re_step) l) end.
  - match goal with |- bind (omap _ ?x) _ = _ => destruct x as [found| |]; [|easy..] end. cbn [omap bind].
    change (st_free (re s)) with (map re_flight (st_free s)). now rewrite steps_of_re, map_app, concat_map.
  - intros [[o q] g] _. cbn [entry_mapped same fst snd re_groups gr_closed gr_open].
    destruct (queue_decl p q) as [d| |]; [|easy..]. cbn [bind omap]. f_equal.
    rewrite <- concat_map, released_re, <- map_app, <- steps_of_re. f_equal.
    set (fs := concat (gr_closed g) ++ released (gr_open g)). rewrite map_app. f_equal.
    + destruct (qu_ordered d); [now rewrite firstn_map|easy].
    + destruct (split_reads p q); [|easy]. now rewrite (filter_mapped fl_reading), firstn_map.
Qed.

(** A renumbered state has the same steps, renumbered. *)
Theorem renumbered_steps s : all_high s -> steps p (re s) = omap (map re_step) (steps p s).
Proof.
  intros H. unfold steps. change (st_positions (re s)) with (mapi place 0 (st_positions s)). rewrite numbered_mapi.
  match goal with |- bind (each ?g (map ?m _)) _ = omap _ (bind (each ?f ?l) _) =>
    rewrite (each_mapped f g m (map re_step) l) end.
  - match goal with |- bind (omap _ ?x) _ = _ => destruct x as [own| |]; [|easy..] end. cbn [omap bind].
    rewrite engine_steps_re. destruct (engine_steps p s) as [others| |]; [|easy..]. cbn [omap bind].
    now rewrite <- concat_map, <- map_app, sorted_re.
  - intros [a q] _. cbn [fst snd]. rewrite enabled_re by easy. destruct (enabled p s a) as [[|]| |]; easy.
Qed.

Lemma by_age_re f l : by_age (re_flight f) (map re_flight l) = map re_flight (by_age f l).
Proof.
  induction l as [|g l IH]; [easy|]. cbn [by_age map]. rewrite IH.
  replace ((fl_agent (re_flight f) =? fl_agent (re_flight g))%nat && (fl_ordinal (re_flight f) <=? fl_ordinal (re_flight g)))
    with ((fl_agent f =? fl_agent g)%nat && (fl_ordinal f <=? fl_ordinal g)).
  - change (fl_agent (re_flight f)) with (fl_agent f). change (fl_agent (re_flight g)) with (fl_agent g).
    now destruct (_ || _).
  - cbn. destruct (Nat.eqb_spec (fl_agent f) (fl_agent g)) as [->|]; cbn [andb]; [|easy].
    apply eq_true_iff_eq. rewrite !Z.leb_le. lia.
Qed.

Lemma aged_re l : fold_right by_age [] (map re_flight l) = map re_flight (fold_right by_age [] l).
Proof. induction l as [|f l IH]; cbn [fold_right map]; [easy|]. now rewrite IH, by_age_re. Qed.

(** A step does to it what it does to the state: the same fault, or the same result, renumbered. *)
Theorem renumbered_apply s x : all_high s ->
  apply_step p (re s) (re_step x) = omap re (apply_step p s x) /\
  forall t, apply_step p s x = Done t -> all_high t.
Proof.
  intros H. unfold apply_step.
  assert (E : exists y z, y = omap re z /\ (forall t, z = Done t -> all_high t) /\
    y = match re_step x with AgentStep a => execute p (re s) a | FinishStep a n => engine_step p (re s) a n false
        | ReadsStep a n => engine_step p (re s) a n true end /\
    z = match x with AgentStep a => execute p s a | FinishStep a n => engine_step p s a n false
        | ReadsStep a n => engine_step p s a n true end).
  { eexists. eexists. split; [|split; [|split; reflexivity]].
    - destruct x as [a|a n|a n]; cbn [re_step]; [now apply execute_re|apply engine_step_re..].
    - destruct x as [a|a n|a n]; [now apply execute_re|..]; intros t T; unfold all_high;
        now rewrite (engine_step_still _ _ _ s t T). }
  destruct E as (y & z & E & K & <- & <-). rewrite E. destruct z as [t| |]; cbn [omap bind]; [|now split..].
  specialize (K t eq_refl). rewrite exit_re, lapped_re by easy.
  destruct (check_exit p t) as [u| |]; cbn [bind]; [|now split..].
  destruct (check_lapped p t) as [v| |]; cbn [bind omap]; [|now split..]. split.
  - change (st_free (re t)) with (map re_flight (st_free t)). now rewrite aged_re.
  - now intros w [= <-].
Qed.

Definition re_use (x : cell * use) : cell * use := (spin (fst x), snd x).

Lemma touched_re s a effects : all_high s ->
  (forall q g, nth_error (st_positions s) a = Some q -> nth_error (pr_agents p) a = Some g ->
     forall e, In e effects -> fits_effect (environment g (values q)) (environment g (values (place a q))) e) ->
  touched p (re s) a effects = omap (map re_use) (touched p s a effects).
Proof.
  intros H F. unfold touched. rewrite env_of_re. unfold env_of, agent_of.
  destruct (nth_error (pr_agents p) a) as [g|]; [|easy]. cbn [got bind].
  destruct (nth_error (st_positions s) a) as [q|]; [|easy]. cbn [got bind]. specialize (F q g eq_refl eq_refl).
  match goal with |- bind (each ?g' effects) _ = omap _ (bind (each ?f' _) _) =>
    assert (E : each g' effects = omap (map (map re_use)) (each f' effects)) end.
  { rewrite <- (map_id effects) at 1. apply each_mapped. intros e I. rewrite resolve_re with (env := environment g (values q)) by auto.
    destruct (resolve p s a (environment g (values q)) e) as [[cs t]| |]; [|easy..]. cbn. now rewrite !map_map. }
  rewrite E. match goal with |- bind (omap _ ?x) _ = _ => destruct x as [found| |]; [|easy..] end. cbn. now rewrite concat_map.
Qed.

Lemma conflict_re l m : conflict (map re_use l) (map re_use m) = conflict l m.
Proof.
  unfold conflict. apply exists_mapped. intros [c [w k]]. cbn. apply exists_mapped. intros [d [v j]]. cbn. now rewrite spin_one.
Qed.

Definition re_found (e : nat * list (cell * use)) : nat * list (cell * use) := (fst e, map re_use (snd e)).
Lemma race_re l : forall before, race (map re_found l) (map re_found before) = race l before.
Proof.
  induction l as [|[a t] l IH]; intros before; [easy|]. cbn [race map re_found fst snd].
  rewrite (find_mapped (fun e => conflict (snd e) t)) by (intros e; apply conflict_re).
  destruct (List.find _ before) as [[b u]|]; cbn [option_map re_found fst]; [easy|].
  rewrite <- IH, map_app. easy.
Qed.

(** And it is as faulty: a race, or a deadlock. *)
Theorem renumbered_fault s : all_high s -> state_fault p (re s) = state_fault p s.
Proof.
  intros H. unfold state_fault. rewrite renumbered_steps by easy.
  change (st_positions (re s)) with (mapi place 0 (st_positions s)). rewrite numbered_mapi.
  match goal with |- bind (each ?g (map ?m ?l)) _ = bind (each ?f _) _ => rewrite (each_mapped f g m (map re_found) l) end.
  2:{ intros [a q] I. cbn [fst snd]. rewrite op_re. destruct (op_of p q) as [o|] eqn:O; [|easy].
      destruct o; try easy. rewrite touched_re; [now destruct (touched p s a effects)|easy|]. intros q' g Q G.
      apply in_numbered in I. rewrite I in Q. injection Q as <-.
      exact (high_fits a q g _ (H a q I) G O). }
  match goal with |- bind (omap _ ?x) _ = _ => destruct x as [found| |]; [|easy..] end. cbn [omap bind].
  rewrite <- concat_map. change (@nil (nat * list (cell * use))) with (map re_found []) at 1. rewrite race_re.
  destruct (race (concat found) []) as [u| |]; [|easy..]. cbn [bind].
  destruct (steps p s) as [xs| |]; [|easy..]. cbn [omap bind]. rewrite empty_mapped.
  rewrite (filter_mapped (fun e => negb (is_empty (frames (snd e))))) by (intros e; cbn; now rewrite place_frames).
  now rewrite empty_mapped, map_map.
Qed.

(** ** The theorem of AnyNumber.v on shifts, for sync programs *)

(** A configuration is a state, or [None] after a step with a fault. *)
Definition sync_step (c d : option state) : Prop :=
  exists s xs x, c = Some s /\ steps p s = Done xs /\ In x xs /\
  match d with Some t => apply_step p s x = Done t | None => forall t, apply_step p s x <> Done t end.
Definition sync_bad (c : option state) : Prop :=
  match c with Some s => state_fault p s <> Done tt | None => True end.

Theorem renumbered_bisimilar s : all_high s -> bisimilar _ sync_step sync_bad (Some s) (Some (re s)).
Proof.
  intros H. apply (shift_bisimilar (option state) sync_step sync_bad
    (fun c => match c with Some s => all_high s | None => True end) (option_map re)); [| | | |easy].
  - intros c d Hc (u & xs & x & -> & S & I & A). destruct d as [t|]; [|easy]. now apply (renumbered_apply u x).
  - intros [u|] Hc; [|easy]. cbn. now rewrite renumbered_fault.
  - intros c d Hc (u & xs & x & -> & S & I & A). exists (re u), (map re_step xs), (re_step x).
    destruct (renumbered_apply u x Hc) as [E _]. rewrite renumbered_steps, S by easy.
    split; [easy|]. split; [easy|]. split; [now apply in_map|]. cbn [option_map].
    destruct d as [t|]; cbn [option_map]; rewrite E.
    + now rewrite A.
    + intros t. destruct (apply_step p u x) as [w| |]; [now destruct (A w)|easy..].
  - intros [u|] e Hc (v & ys & y & V & S & I & A); [|easy]. injection V as <-.
    rewrite renumbered_steps in S by easy. destruct (steps p u) as [xs| |] eqn:X; [|easy..]. injection S as <-.
    apply in_map_iff in I as (x & <- & I). destruct (renumbered_apply u x Hc) as [E _]. rewrite E in A.
    destruct e as [t|].
    + destruct (apply_step p u x) as [w| |] eqn:W; [|easy..]. injection A as <-. exists (Some w).
      split; [|easy]. now exists u, xs, x.
    + exists None. split; [|easy]. exists u, xs, x. repeat split; try easy.
      intros w W. now destruct (A (re w)); rewrite W.
Qed.

End Renumbered.

(** ** What fits, computed from the expressions *)

Section Dropped.
Variable p : program.
Variable member : nat -> bool.
Variable P : Z.
Variable degree : nat -> Z.   (* of the phases of an mbarrier *)
Variable rise : nat -> Z.     (* of the tiles in a storage *)
Variable tile : nat -> Z -> Z.

Definition drops (d : Z) (e : expression) : bool :=
  match drop member P e with Some x => x =? d | None => false end.
Definition drops_part (e : option expression) : bool :=
  match e with Some e => drops 0 e | None => true end.
Definition drops_parity (d : Z) (e : expression) : bool :=
  match drop member P e with Some x => (x - d) mod 2 =? 0 | None => false end.

Definition drops_effect (e : effect) : bool :=
  drops 0 (ef_stage e) && drops_part (ef_part e)
  && match ef_tile e with Some t => drops (rise (storage_of p e)) t | None => true end.

Definition dropped (o : operation) : bool :=
  match o with
  | Access l => forallb drops_effect l
  | Asynchronous _ l _ completes _ =>
    forallb drops_effect l && forallb (fun c => drops 0 (snd (fst c)) && drops 0 (snd c)) completes
  | QueueWait _ n _ | PoolTake _ n | PoolGive _ n => drops 0 n
  | QueueArrive _ _ r n | ExpectTransaction r n | BarrierSync r n | BarrierArrive r n => drops 0 (snd r) && drops 0 n
  | Init r n => drops 0 (snd r) && drops 0 n && (degree (fst r) =? 0)
  | Invalidate r | TokenWait r | BarrierWait r => drops 0 (snd r)
  | Arrive r n bytes _ _ => drops 0 (snd r) && drops 0 n && drops 0 bytes
  | Wait r parity phase =>
    drops 0 (snd r) && drops_parity (degree (fst r)) parity
    && match phase with Some e => drops (degree (fst r)) e | None => true end
  | Commit _ | Fence _ _ | Assign _ _ | Loop _ _ _ _ | Branch _ _ _ => true
  end.

Lemma drops_value env d e : drops d e = true ->
  value (lowered member P env) e = omap (fun v => v - d) (value env e).
Proof.
  unfold drops. destruct (drop member P e) as [x|] eqn:D; [|easy]. intros E. apply Z.eqb_eq in E. subst x.
  rewrite (value_falls member P e d env D). unfold value. now destruct (eval env e).
Qed.

Lemma drops_keeps env e : drops 0 e = true -> keeps env (lowered member P env) e.
Proof.
  intros D. unfold keeps. rewrite (drops_value env 0) by easy. destruct (value env e); cbn; now rewrite ?Z.sub_0_r.
Qed.

Lemma drops_names env r : drops 0 (snd r) = true -> names (fun k => k) env (lowered member P env) r.
Proof. intros D. unfold names. rewrite omap_same. now apply key_re, drops_keeps. Qed.

Lemma key_name env r k : key_of env r = Done k -> fst k = fst r.
Proof. unfold key_of. destruct (value env (snd r)); [|easy..]. now intros [= <-]. Qed.

(** If what the expressions fall by is what it has to be, the operation fits; of a tile that is named, the renumbering
    has to be that fall at its value. *)
Theorem dropped_fits env o : dropped o = true ->
  (forall e t v, In e (effects_of o) -> ef_tile e = Some t -> value env t = Done v ->
     tile (storage_of p e) v = v - rise (storage_of p e)) ->
  fits p (fun k => degree (fst k)) tile (fun k => k) (fun c => c) env (lowered member P env) o.
Proof.
  intros D T.
  assert (E : forall e, In e (effects_of o) -> drops_effect e = true ->
    fits_effect p tile (fun c => c) env (lowered member P env) e).
  { intros e I H. unfold drops_effect in H. rewrite !andb_true_iff in H. destruct H as [[S Q] R]. split.
    - intros b a _. unfold located. rewrite (drops_keeps env _ S). destruct (value env (ef_stage e)) as [stage| |]; [|easy..]. cbn [bind].
      assert (O : optional (lowered member P env) (ef_part e) = optional env (ef_part e)).
      { unfold optional, drops_part in *. destruct (ef_part e) as [x|]; [|easy]. now rewrite (drops_keeps env x Q). }
      rewrite O. destruct (optional env (ef_part e)) as [part| |]; [|easy..]. cbn [bind].
      destruct (guard _ IndexOutOfRange [a]); [|easy..]. cbn [bind omap]. now rewrite map_id.
    - intros x X. rewrite X in R. rewrite (drops_value env (rise (storage_of p e))) by easy.
      destruct (value env x) as [v| |] eqn:V; [|easy..]. cbn [omap]. f_equal. symmetry. now apply T with x. }
  destruct o; cbn [dropped fits effects_of] in *; rewrite ?andb_true_iff in D; try (now apply drops_keeps); try (now apply drops_names); try easy.
  - intros e I. rewrite forallb_forall in D. auto.
  - destruct D as [D C]. rewrite forallb_forall in D, C. split; [auto|]. intros c I.
    specialize (C c I). rewrite andb_true_iff in C. destruct C. split; now (apply drops_names || apply drops_keeps).
  - destruct D. split; now (apply drops_names || apply drops_keeps).
  - destruct D as [[? ?] Z]. apply Z.eqb_eq in Z. repeat split; try (now apply drops_names); try (now apply drops_keeps).
    intros k K. now rewrite (key_name _ _ _ K).
  - destruct D as [[? ?] ?]. repeat split; now (apply drops_names || apply drops_keeps).
  - destruct D. split; now (apply drops_names || apply drops_keeps).
  - destruct D as [[? Q] R]. repeat split; [now apply drops_names| |].
    + intros k K. unfold drops_parity in Q. destruct (drop member P parity) as [d|] eqn:F; [|easy].
      exists d. rewrite (key_name _ _ _ K). apply Z.eqb_eq in Q. split; [|easy].
      apply drops_value. unfold drops. rewrite F. apply Z.eqb_refl.
    + intros e -> k K. rewrite (key_name _ _ _ K). now apply drops_value.
  - destruct D. split; now (apply drops_names || apply drops_keeps).
  - destruct D. split; now (apply drops_names || apply drops_keeps).
Qed.

End Dropped.

(** Tiles lower by [d] but for the one that means any: one to one, as [tile_any] and [tile_one] ask. *)
Definition lower_tile (d t : Z) : Z :=
  if t =? any_tile then any_tile else if t =? any_tile + d then any_tile - d else t - d.

Theorem lower_tile_one d : lower_tile d any_tile = any_tile /\
  (forall t u, lower_tile d t = lower_tile d u -> t = u) /\
  (forall t, t <> any_tile -> t <> any_tile + d -> lower_tile d t = t - d).
Proof.
  unfold lower_tile. rewrite Z.eqb_refl. split; [easy|]. split.
  - intros t u. destruct (Z.eqb_spec t any_tile), (Z.eqb_spec u any_tile),
      (Z.eqb_spec t (any_tile + d)), (Z.eqb_spec u (any_tile + d)); lia.
  - intros t N M. destruct (Z.eqb_spec t any_tile), (Z.eqb_spec t (any_tile + d)); easy.
Qed.
