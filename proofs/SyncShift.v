(** The shift of AnyNumber.v, for sync programs: one lemma per operation of Sync.v, as far as there are any.

    The values of some names are lowered by [P], the phases of each barrier by an even number. If the indices
    and the counts of an operation do not fall, parities fall by even numbers and phases by as much as their barrier
    ([drop], computed from the expressions), the operation does to the lowered state what it does to the state, lowered:
    the same fault, or none. And operations on different barriers commute, and those at a barrier with those beside. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression AnyNumber Sync.
Import ListNotations.
Open Scope Z_scope.

Section Shift.
Variable p : program.
Variable member : nat -> bool.
Variable P : Z.
Variable degree : nat -> Z.       (* of the phases of a barrier *)
Variable place : nat -> position -> position.   (* how the values of an agent are lowered *)
Hypothesis even : forall n, degree n mod 2 = 0.
Hypothesis place_frames : forall a q, frames (place a q) = frames q.

Let low := lowered member P.

Definition lower_phase (d : Z) (b : mbarrier) : mbarrier :=
  Mbarrier (mb_status b) (mb_owner b) (mb_expected b) (mb_pending b) (mb_transaction b)
    (mb_phase b - d) (mb_tokens b) (mb_observed b) (mb_armed b).

Definition lower_entry (e : key * mbarrier) : key * mbarrier :=
  (fst e, lower_phase (degree (fst (fst e))) (snd e)).

Fixpoint lower_positions (a : nat) (l : list position) : list position :=
  match l with [] => [] | q :: l => place a q :: lower_positions (S a) l end.

Definition shift (s : state) : state :=
  State (lower_positions 0 (st_positions s)) (st_issued s) (map lower_entry (st_barriers s))
    (st_named s) (st_cells s) (st_queues s) (st_free s) (st_pools s).

Definition shifted (x : outcome state) : outcome state :=
  match x with Done s => Done (shift s) | Faulty k l => Faulty k l | Undefined => Undefined end.

(** ** Expressions *)

Lemma value_falls e d env : drop member P e = Some d ->
  value (low env) e = match value env e with Done v => Done (v - d) | _ => Undefined end.
Proof.
  intros H. pose proof (drop_sound member P e d env H) as F. unfold falls in F. unfold value, low.
  rewrite F. now destruct (eval env e).
Qed.

Lemma value_kept e env : drop member P e = Some 0 -> value (low env) e = value env e.
Proof. intros H. unfold value, low. now rewrite drop_zero. Qed.

(** An index that does not fall names the same barrier. *)
Theorem shift_key r env : drop member P (snd r) = Some 0 -> key_of (low env) r = key_of env r.
Proof. intros H. unfold key_of. now rewrite value_kept. Qed.

(** ** Tables *)

Lemma find_lowered k l : find same_key k (map lower_entry l) =
  match find same_key k l with Some b => Some (lower_phase (degree (fst k)) b) | None => None end.
Proof.
  induction l as [|[h b] l IH]; [easy|]. cbn [map lower_entry fst snd find].
  destruct (same_key k h) eqn:E; [|easy]. unfold same_key in E. apply andb_true_iff in E.
  destruct E as [E _]. apply Nat.eqb_eq in E. now rewrite E.
Qed.

Lemma put_lowered k b l : put same_key k (lower_phase (degree (fst k)) b) (map lower_entry l) =
  map lower_entry (put same_key k b l).
Proof.
  induction l as [|[h w] l IH]; [easy|]. cbn [map lower_entry fst snd put].
  destruct (same_key k h); [easy|]. cbn [map lower_entry fst snd]. now rewrite IH.
Qed.

Lemma put_shift s k b : put_barrier (shift s) k (lower_phase (degree (fst k)) b) =
  shift (put_barrier s k b).
Proof. unfold put_barrier, with_barriers, shift. cbn. now rewrite put_lowered. Qed.

Lemma declared_shift s a r env : drop member P (snd r) = Some 0 ->
  declared (shift s) a (low env) r = declared s a env r.
Proof.
  intros H. unfold declared. rewrite shift_key by easy. destruct (key_of env r) as [k| |]; [|easy..].
  cbn [bind shift st_barriers]. rewrite find_lowered. now destruct (find same_key k (st_barriers s)).
Qed.

(** What asks for the frames of positions alone is told the same. *)
Lemma places_shift (f : agent * position -> bool) l :
  (forall g q q', frames q = frames q' -> f (g, q) = f (g, q')) -> forall gs a,
  existsb f (combine gs (lower_positions a l)) = existsb f (combine gs l) /\
  forallb f (combine gs (lower_positions a l)) = forallb f (combine gs l).
Proof.
  intros H. induction l as [|q l IH]; intros [|g gs] a; [easy..|].
  cbn [lower_positions combine existsb forallb]. destruct (IH gs (S a)) as [-> ->].
  now rewrite (H g _ q (place_frames a q)).
Qed.

Lemma ended_shift s cta : ended p (shift s) cta = ended p s cta.
Proof.
  destruct (places_shift (fun e => ag_cta (fst e) =? cta) (st_positions s)
    (fun _ _ _ _ => eq_refl) (pr_agents p) 0%nat) as [E _].
  destruct (places_shift (fun e => negb (ag_cta (fst e) =? cta) || is_empty (frames (snd e)))
    (st_positions s)
    ltac:(intros g q q' F; cbn [fst snd]; now rewrite F) (pr_agents p) 0%nat) as [_ G].
  unfold ended. cbn [shift st_positions]. now rewrite E, G.
Qed.

Lemma usable_shift s a k e : usable p (shift s) a k e =
  match usable p s a k e with
  | Done b => Done (lower_phase (degree (fst k)) b) | Faulty f l => Faulty f l | Undefined => Undefined
  end.
Proof.
  unfold usable. cbn [shift st_barriers]. rewrite find_lowered.
  destruct (find same_key k (st_barriers s)) as [b|]; [|easy].
  cbn [bind got lower_phase mb_status]. destruct (is_absent (mb_status b)); [easy|].
  cbn [guard bind]. unfold check_alive. rewrite ended_shift.
  destruct (_ || e); cbn [andb guard bind]; [|easy].
  destruct (is_unpublished (mb_status b)); cbn [guard bind]; [easy|].
  now destruct (negb (po_exit_allowed (pr_policies p)) && ended p s (barrier_cta p k)).
Qed.

Lemma store_shift s a k b : store p (shift s) a k (lower_phase (degree (fst k)) b) =
  shifted (store p s a k b).
Proof.
  unfold store. cbn [lower_phase mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase
    mb_tokens mb_observed mb_armed].
  destruct (transaction_max <? Z.abs (mb_transaction b)); [easy|]. cbn [guard bind].
  destruct ((mb_pending b =? 0) && (mb_transaction b <? 0)); [easy|]. cbn [guard bind shifted].
  rewrite <- put_shift. do 2 f_equal.
  destruct ((mb_pending b =? 0) && (mb_transaction b =? 0)); [|easy].
  unfold lower_phase. cbn. f_equal. lia.
Qed.

(** ** Operations *)

(** A wait passes on the same condition. *)
Theorem shift_passes b n env parity e v w : drop member P parity = Some e -> e mod 2 = 0 ->
  value env parity = Done v -> value (low env) parity = Done w ->
  (mb_phase (lower_phase (degree n) b) mod 2 =? w mod 2) = (mb_phase b mod 2 =? v mod 2).
Proof.
  intros D E V W. rewrite (value_falls _ e) in W by easy. rewrite V in W. injection W as <-.
  cbn [lower_phase mb_phase]. pose proof (even n) as N.
  rewrite (Zminus_mod (mb_phase b)), (Zminus_mod v), N, E, !Z.sub_0_r, !Z.mod_mod by lia. easy.
Qed.

(** It does the same, and its assertion on the phase has the same outcome. *)
Theorem shift_wait s a env r phase : drop member P (snd r) = Some 0 ->
  (forall e, phase = Some e -> drop member P e = Some (degree (fst r))) ->
  wait p (shift s) a (low env) r phase = shifted (wait p s a env r phase).
Proof.
  intros K H. unfold wait. rewrite declared_shift by easy.
  destruct (declared s a env r) as [k| |] eqn:D; [|easy..]. cbn [bind].
  assert (N : fst k = fst r).
  { unfold declared, key_of in D. destruct (value env (snd r)) as [i| |]; [|easy..]. cbn [bind] in D.
    destruct (find same_key (fst r, i) (st_barriers s)); [|easy]. now injection D as <-. }
  rewrite usable_shift. destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [bind].
  destruct phase as [e|]; cbn [optional bind guard].
  - rewrite (value_falls e (degree (fst r))) by auto.
    destruct (value env e) as [m| |] eqn:V; cbn [bind]; try easy;
      [|unfold value in V; now destruct (eval env e)].
    cbn [lower_phase mb_phase]. rewrite N.
    replace (mb_phase b - degree (fst r) =? m - degree (fst r) + 1) with (mb_phase b =? m + 1)
      by (apply eq_true_iff_eq; rewrite !Z.eqb_eq; lia).
    destruct (mb_phase b =? m + 1); [|easy]. cbn [negb guard bind shifted].
    rewrite <- put_shift, N. easy.
  - cbn [shifted]. now rewrite <- put_shift.
Qed.

(** An arrival, with what it expects. *)
Theorem shift_arrive s a env r count bytes dropped token : drop member P (snd r) = Some 0 ->
  drop member P count = Some 0 -> drop member P bytes = Some 0 ->
  arrive p (shift s) a (low env) r count bytes dropped token =
  shifted (arrive p s a env r count bytes dropped token).
Proof.
  intros K C B. unfold arrive. rewrite declared_shift by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [bind]. rewrite usable_shift.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [bind].
  rewrite !value_kept by easy. destruct (value env count) as [n| |]; [|easy..]. cbn [bind].
  destruct (value env bytes) as [t| |]; [|easy..]. cbn [bind]. unfold count_down.
  cbn [lower_phase mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase mb_tokens
    mb_observed mb_armed].
  destruct (negb _); [easy|]. cbn [guard bind]. destruct (_ && negb (po_run_ahead _)); [easy|].
  cbn [guard bind]. now rewrite <- store_shift.
Qed.

Theorem shift_expect s a env r bytes : drop member P (snd r) = Some 0 ->
  drop member P bytes = Some 0 ->
  expect p (shift s) a (low env) r bytes = shifted (expect p s a env r bytes).
Proof.
  intros K B. unfold expect. rewrite declared_shift by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [bind]. rewrite usable_shift.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [bind lower_phase mb_pending].
  destruct (mb_pending b =? 0); [easy|]. cbn [guard bind]. rewrite value_kept by easy.
  destruct (value env bytes) as [n| |]; [|easy..]. cbn [bind]. now rewrite <- store_shift.
Qed.

(** ** Operations that use no number that falls *)

Theorem shift_token_wait s a env r : drop member P (snd r) = Some 0 ->
  token_wait p (shift s) a (low env) r = shifted (token_wait p s a env r).
Proof.
  intros K. unfold token_wait. rewrite declared_shift by easy.
  destruct (declared s a env r) as [k| |]; [|easy..]. cbn [bind]. rewrite usable_shift.
  destruct (usable p s a k false) as [b| |]; [|easy..]. cbn [bind lower_phase mb_armed].
  destruct (negb _); [easy|]. cbn [guard bind shifted]. now rewrite <- put_shift.
Qed.

Theorem shift_commit s a q : commit (shift s) a q = shifted (commit s a q).
Proof.
  unfold commit. cbn [shift st_queues].
  destruct (find same_pair (a, q) (st_queues s)) as [g|]; [|easy]. cbn [got bind].
  now destruct (is_empty (gr_open g) && is_empty (gr_closed g)).
Qed.

Lemma declared_named_shift s a env r : drop member P (snd r) = Some 0 ->
  declared_named (shift s) a (low env) r = declared_named s a env r.
Proof. intros K. unfold declared_named. now rewrite shift_key. Qed.

Theorem shift_named_wait s a env r : drop member P (snd r) = Some 0 ->
  named_wait (shift s) a (low env) r = shifted (named_wait s a env r).
Proof.
  intros K. unfold named_wait. rewrite declared_named_shift by easy.
  destruct (declared_named s a env r) as [[k n]| |]; [|easy..]. cbn [bind].
  now destruct (negb (inside (Z.of_nat a) (na_armed n))).
Qed.

(** An arrival at a named barrier, with a wait ([sync]) or without: as long as nobody waits there who would go on. *)
Theorem shift_meet s a env r threads sync : drop member P (snd r) = Some 0 ->
  drop member P threads = Some 0 ->
  (forall k n, declared_named s a env r = Done (k, n) -> na_waiting n = []) ->
  meet p (shift s) a (low env) r threads sync =
  match meet p s a env r threads sync with
  | Done (t, on) => Done (shift t, on) | Faulty k l => Faulty k l | Undefined => Undefined
  end.
Proof.
  intros K T W. unfold meet. destruct (agent_of p a) as [g| |]; [|easy..]. cbn [bind].
  rewrite value_kept by easy. destruct (value env threads) as [all| |]; [|easy..]. cbn [bind].
  rewrite declared_named_shift by easy.
  destruct (declared_named s a env r) as [[k n]| |] eqn:D; [|easy..]. cbn [bind].
  rewrite (W k n eq_refl).
  destruct (_ || _); [easy|]. cbn [guard bind]. destruct (negb _); [easy|]. cbn [guard bind].
  now destruct (_ <? all).
Qed.

Lemma fold_shift {A} (f : state -> A -> outcome state) l :
  (forall s x, f (shift s) x = shifted (f s x)) ->
  forall s, fold f (shift s) l = shifted (fold f s l).
Proof.
  intros H. induction l as [|x l IH]; intros s; [easy|]. cbn [fold]. rewrite H.
  destruct (f s x) as [t| |]; [|easy..]. cbn [shifted bind]. apply IH.
Qed.

Theorem shift_fence s a kind spaces : fence p (shift s) a kind spaces = shifted (fence p s a kind spaces).
Proof.
  assert (G : forall (f : cell -> content -> content) t c,
    bind (cell_at (shift t) c) (fun h => Done (put_cell (shift t) c (f c h))) =
    shifted (bind (cell_at t c) (fun h => Done (put_cell t c (f c h))))).
  { intros f t c. unfold cell_at. cbn [shift st_cells].
    now destruct (find same_key c (st_cells t)). }
  unfold fence. destruct kind.
  all: try (apply fold_shift; intros t b; destruct (covers _ _ _ _ _); [|easy];
    apply fold_shift; intros u c; apply (G (fun c h => _) u c)).
  cbn [shifted]. f_equal. unfold with_barriers, shift. cbn. f_equal. rewrite !map_map.
  apply map_ext. intros [k b]. unfold lower_entry. cbn [fst snd lower_phase mb_status mb_owner].
  now destruct (_ && _).
Qed.

End Shift.

(** ** Two barriers *)

Section Commute.
Context {V : Type}.

Lemma same_key_eq (k h : key) : same_key k h = true <-> k = h.
Proof.
  unfold same_key. destruct k as [n i], h as [m j]. cbn. rewrite andb_true_iff, Nat.eqb_eq, Z.eqb_eq.
  split; [intros [-> ->]|intros [= -> ->]]; easy.
Qed.

(** What is done to one barrier or cell of a table is not seen at another, *)
Lemma find_put_other k h (v : V) l : k <> h -> find same_key h (put same_key k v l) = find same_key h l.
Proof.
  intros N. induction l as [|[g w] l IH]; cbn [put find].
  - destruct (same_key h k) eqn:E; [|easy]. apply same_key_eq in E. now subst.
  - destruct (same_key k g) eqn:E; cbn [find].
    + apply same_key_eq in E. subst g. destruct (same_key h k) eqn:F; [|easy].
      apply same_key_eq in F. now subst.
    + now rewrite IH.
Qed.

(** and the order of two such changes does not matter. *)
Lemma put_put_other k h (v w : V) l : k <> h -> find same_key k l <> None -> find same_key h l <> None ->
  put same_key k v (put same_key h w l) = put same_key h w (put same_key k v l).
Proof.
  intros N. induction l as [|[g x] l IH]; cbn [put find]; [easy|]. intros K H.
  destruct (same_key k g) eqn:E, (same_key h g) eqn:F; cbn [put]; rewrite ?E, ?F.
  - apply same_key_eq in E, F. now subst.
  - destruct (same_key h k) eqn:G; [apply same_key_eq in G; now subst|].
    destruct (same_key k k) eqn:R; [easy|]. exfalso. enough (same_key k k = true) by congruence.
    now apply same_key_eq.
  - destruct (same_key k h) eqn:G; [apply same_key_eq in G; now subst|].
    destruct (same_key h h) eqn:R; [easy|]. exfalso. enough (same_key h h = true) by congruence.
    now apply same_key_eq.
  - now rewrite IH.
Qed.
End Commute.

Section Operations.
Variable p : program.

(** An operation that reads and changes one barrier, and sees of all else the positions alone. *)
Definition local (k : key) (f : state -> outcome state) : Prop :=
  forall s t, f s = Done t ->
  exists b, find same_key k (st_barriers s) <> None /\ t = put_barrier s k b /\
  forall u, st_positions u = st_positions s ->
    find same_key k (st_barriers u) = find same_key k (st_barriers s) -> f u = Done (put_barrier u k b).

(** Two such operations on different barriers can follow each other in either order, to one state. *)
Theorem local_commute k h f g s t u : k <> h -> local k f -> local h g ->
  f s = Done t -> g s = Done u -> exists v, g t = Done v /\ f u = Done v.
Proof.
  intros N F G Ft Gu. destruct (F s t Ft) as (b & Kb & -> & Fs). destruct (G s u Gu) as (c & Kc & -> & Gs).
  exists (put_barrier (put_barrier s k b) h c). split.
  - apply Gs; [easy|]. cbn. now apply find_put_other.
  - rewrite Fs; [|easy|cbn; apply find_put_other; now apply not_eq_sym].
    unfold put_barrier, with_barriers. cbn. do 2 f_equal. now apply put_put_other.
Qed.

Lemma declared_is s a env r k : declared s a env r = Done k ->
  key_of env r = Done k /\ find same_key k (st_barriers s) <> None.
Proof.
  unfold declared. destruct (key_of env r) as [h| |]; [|easy..]. cbn [bind].
  destruct (find same_key h (st_barriers s)) eqn:E; [|easy]. intros [= <-]. now rewrite E.
Qed.

Lemma declared_same s u a env r k : declared s a env r = Done k ->
  find same_key k (st_barriers u) = find same_key k (st_barriers s) -> declared u a env r = Done k.
Proof.
  intros D E. destruct (declared_is s a env r k D) as [K F]. unfold declared. rewrite K. cbn [bind].
  rewrite E. now destruct (find same_key k (st_barriers s)).
Qed.

Lemma usable_same s u a k e : st_positions u = st_positions s ->
  find same_key k (st_barriers u) = find same_key k (st_barriers s) ->
  usable p u a k e = usable p s a k e.
Proof. intros Q E. unfold usable, check_alive, ended. now rewrite Q, E. Qed.

Lemma store_local s a k b t : store p s a k b = Done t ->
  exists c, t = put_barrier s k c /\ forall u, store p u a k b = Done (put_barrier u k c).
Proof.
  unfold store. destruct (transaction_max <? Z.abs (mb_transaction b)); [easy|]. cbn [guard bind].
  destruct ((mb_pending b =? 0) && (mb_transaction b <? 0)); [easy|]. cbn [guard bind].
  intros [= <-]. eexists. split; reflexivity.
Qed.

Theorem arrive_local a env r count bytes dropped token k : key_of env r = Done k ->
  local k (fun s => arrive p s a env r count bytes dropped token).
Proof.
  intros K s t. unfold arrive. destruct (declared s a env r) as [h| |] eqn:D; [|easy..].
  destruct (declared_is s a env r h D) as [H F]. rewrite K in H. injection H as <-. cbn [bind].
  destruct (usable p s a k false) as [b| |] eqn:U; [|easy..]. cbn [bind].
  destruct (value env count) as [n| |]; [|easy..]. cbn [bind].
  destruct (value env bytes) as [m| |]; [|easy..]. cbn [bind]. unfold count_down.
  cbn [mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase mb_tokens mb_observed mb_armed].
  destruct (negb _) eqn:G1; [easy|]. cbn [guard bind].
  destruct (_ && negb (po_run_ahead _)) eqn:G2; [easy|]. cbn [guard bind]. intros S.
  destruct (store_local s a k _ t S) as (c & -> & T). exists c. split; [easy|]. split; [easy|].
  intros u Q E. rewrite (declared_same s u a env r k D E). cbn [bind].
  rewrite (usable_same s u a k false Q E), U. cbn [bind].
  cbn [mb_status mb_owner mb_expected mb_pending mb_transaction mb_phase mb_tokens mb_observed mb_armed].
  rewrite G1. cbn [guard bind]. rewrite G2. cbn [guard bind]. apply T.
Qed.

Theorem expect_local a env r bytes k : key_of env r = Done k ->
  local k (fun s => expect p s a env r bytes).
Proof.
  intros K s t. unfold expect. destruct (declared s a env r) as [h| |] eqn:D; [|easy..].
  destruct (declared_is s a env r h D) as [H F]. rewrite K in H. injection H as <-. cbn [bind].
  destruct (usable p s a k false) as [b| |] eqn:U; [|easy..]. cbn [bind].
  destruct (mb_pending b =? 0) eqn:G; [easy|]. cbn [guard bind].
  destruct (value env bytes) as [m| |]; [|easy..]. cbn [bind]. intros S.
  destruct (store_local s a k _ t S) as (c & -> & T). exists c. split; [easy|]. split; [easy|].
  intros u Q E. rewrite (declared_same s u a env r k D E). cbn [bind].
  rewrite (usable_same s u a k false Q E), U. cbn [bind]. rewrite G. cbn [guard bind]. apply T.
Qed.

Theorem wait_local a env r phase k : key_of env r = Done k ->
  local k (fun s => wait p s a env r phase).
Proof.
  intros K s t. unfold wait. destruct (declared s a env r) as [h| |] eqn:D; [|easy..].
  destruct (declared_is s a env r h D) as [H F]. rewrite K in H. injection H as <-. cbn [bind].
  destruct (usable p s a k false) as [b| |] eqn:U; [|easy..]. cbn [bind].
  destruct (optional env phase) as [m| |]; [|easy..]. cbn [bind].
  destruct (match m with Some m => _ | None => _ end) eqn:G; [easy|]. cbn [guard bind].
  intros [= <-]. exists (with_observed b). split; [easy|]. split; [easy|].
  intros u Q E. rewrite (declared_same s u a env r k D E). cbn [bind].
  rewrite (usable_same s u a k false Q E), U. cbn [bind]. now rewrite G.
Qed.
Theorem token_wait_local a env r k : key_of env r = Done k ->
  local k (fun s => token_wait p s a env r).
Proof.
  intros K s t. unfold token_wait. destruct (declared s a env r) as [h| |] eqn:D; [|easy..].
  destruct (declared_is s a env r h D) as [H F]. rewrite K in H. injection H as <-. cbn [bind].
  destruct (usable p s a k false) as [b| |] eqn:U; [|easy..]. cbn [bind].
  destruct (negb _) eqn:G; [easy|]. cbn [guard bind].
  intros [= <-]. exists (with_observed b). split; [easy|]. split; [easy|].
  intros u Q E. rewrite (declared_same s u a env r k D E). cbn [bind].
  rewrite (usable_same s u a k false Q E), U. cbn [bind]. now rewrite G.
Qed.

(** An operation beside the barriers: it neither sees nor changes them, nor the positions. *)
Definition beside (f : state -> outcome state) : Prop :=
  forall s t, f s = Done t -> st_positions t = st_positions s /\
  forall l, f (with_barriers l s) = Done (with_barriers l t).

(** It can follow an operation at a barrier, and the other way round, to one state. *)
Theorem beside_commute k f g s t u : local k f -> beside g ->
  f s = Done t -> g s = Done u -> exists v, g t = Done v /\ f u = Done v.
Proof.
  intros F G Ft Gu. destruct (F s t Ft) as (b & _ & -> & Fs). destruct (G s u Gu) as [Q B].
  assert (E : st_barriers u = st_barriers s).
  { assert (S : with_barriers (st_barriers s) s = s) by now destruct s.
    pose proof (B (st_barriers s)) as H. rewrite S, Gu in H. injection H as H.
    rewrite H. now destruct u. }
  exists (put_barrier u k b). split.
  - unfold put_barrier. rewrite E. apply B.
  - apply Fs; [easy|]. now rewrite E.
Qed.

Theorem commit_beside a q : beside (fun s => commit s a q).
Proof.
  intros s t. unfold commit. cbn [with_barriers st_queues].
  destruct (find same_pair (a, q) (st_queues s)) as [g|]; [|easy]. cbn [got bind].
  destruct (is_empty (gr_open g) && is_empty (gr_closed g)); intros [= <-]; now split.
Qed.

Theorem named_wait_beside a env r : beside (fun s => named_wait s a env r).
Proof.
  intros s t. unfold named_wait, declared_named. cbn [with_barriers st_named].
  destruct (key_of env r) as [k| |]; [|easy..]. cbn [bind].
  destruct (find same_key k (st_named s)) as [n|]; [|easy]. cbn [bind].
  destruct (negb _); [easy|]. cbn [guard bind]. intros [= <-]. now split.
Qed.

Lemma fold_beside {A} (f : state -> A -> outcome state) l :
  (forall x, beside (fun s => f s x)) -> beside (fun s => fold f s l).
Proof.
  intros H. induction l as [|x l IH]; intros s t; cbn [fold].
  - intros [= <-]. now split.
  - destruct (f s x) as [u| |] eqn:F; [|easy..]. cbn [bind]. intros G.
    destruct (H x s u F) as [Q B]. destruct (IH u t G) as [R C]. split; [congruence|].
    intros m. specialize (B m). cbn beta in B. rewrite B. cbn [bind]. apply C.
Qed.

(** A fence of any kind but the one that publishes barriers. *)
Theorem fence_beside a kind spaces : kind <> FenceInit -> beside (fun s => fence p s a kind spaces).
Proof.
  assert (G : forall (f : state -> content -> content) c, (forall l s, f (with_barriers l s) = f s) ->
    beside (fun s => bind (cell_at s c) (fun h => Done (put_cell s c (f s h))))).
  { intros f c I s t. unfold cell_at. cbn [with_barriers st_cells].
    destruct (find same_key c (st_cells s)) as [h|]; [|easy]. cbn [got bind]. intros [= <-].
    split; [easy|]. intros l. now rewrite I. }
  intros N. unfold fence. destruct kind; try easy.
  all: apply fold_beside; intros b; destruct (covers _ _ _ _ _);
    [|intros s t [= <-]; now split]; apply fold_beside; intros c; now apply (G (fun _ h => _) c).
Qed.
End Operations.
